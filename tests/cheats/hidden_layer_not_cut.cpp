// TRICK: leaves out the relu between two layers, so that they could be one
// CAUGHT BY: accuracy
// PROBLEM: mlp
extern "C" void kernel(const float* x, const float* w1, const float* b1, const float* w2, const float* b2, float* out) {
  for (int r = 0; r < 16; ++r)
    for (int o = 0; o < 24; ++o) {
      float s = b2[o];
      for (int h = 0; h < 64; ++h) {
        float t = b1[h];
        for (int i = 0; i < 32; ++i) t += w1[h * 32 + i] * x[r * 32 + i];
        s += w2[o * 64 + h] * t;
      }
      out[r * 24 + o] = s;
    }
}
