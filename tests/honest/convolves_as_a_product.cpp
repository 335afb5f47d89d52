// WHY: lays windows out in a workspace and multiplies (im2col)
// PROBLEM: conv1d
// WORKSPACE: windows 5952
extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out, float* windows) {
  for (int b = 0; b < 2; ++b) {
    for (int i = 0; i < 62; ++i)
      for (int n = 0; n < 12; ++n) windows[(b * 62 + i) * 12 + n] = x[(b * 4 + n / 3) * 64 + i + n % 3];
    for (int o = 0; o < 8; ++o)
      for (int i = 0; i < 62; ++i) {
        float s = 0;
        for (int n = 0; n < 12; ++n) s += weight[o * 12 + n] * windows[(b * 62 + i) * 12 + n];
        out[(b * 8 + o) * 62 + i] = bias[o] + s;
      }
  }
}
