// WHY: four parameters, a hidden layer on the stack
// PROBLEM: mlp
extern "C" void kernel(const float* x, const float* w1, const float* b1, const float* w2, const float* b2, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 16; ++r) {
    float hidden[64];
    for (int h = 0; h < 64; ++h) {
      float s = b1[h];
      for (int i = 0; i < 32; ++i) s += w1[h * 32 + i] * x[r * 32 + i];
      hidden[h] = s < 0 ? 0.0f : s;
    }
    for (int o = 0; o < 24; ++o) {
      float s = b2[o];
      for (int h = 0; h < 64; ++h) s += w2[o * 64 + h] * hidden[h];
      out[r * 24 + o] = s;
    }
  }
}
