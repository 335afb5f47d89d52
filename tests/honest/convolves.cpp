// WHY: sums taps outside and channels inside
// PROBLEM: conv1d
extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
#pragma omp parallel for collapse(2)
  for (int b = 0; b < 2; ++b)
    for (int o = 0; o < 8; ++o) {
      float s[62] = {};
      for (int t = 0; t < 3; ++t)
        for (int c = 0; c < 4; ++c)
          for (int i = 0; i < 62; ++i) s[i] += weight[(o * 4 + c) * 3 + t] * x[(b * 4 + c) * 64 + i + t];
      for (int i = 0; i < 62; ++i) out[(b * 8 + o) * 62 + i] = s[i] + bias[o];
    }
}
