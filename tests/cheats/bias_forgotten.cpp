// TRICK: leaves out the bias
// CAUGHT BY: accuracy
// PROBLEM: conv1d
extern "C" void kernel(const float* x, const float* weight, const float*, float* out) {
  for (int b = 0; b < 2; ++b)
    for (int o = 0; o < 8; ++o)
      for (int i = 0; i < 62; ++i) {
        float s = 0;
        for (int n = 0; n < 12; ++n) s += weight[o * 12 + n] * x[(b * 4 + n / 3) * 64 + i + n % 3];
        out[(b * 8 + o) * 62 + i] = s;
      }
}
