// WHY: repacks the weights into workspaces in every call, then two kernels
// PROBLEM: mlp
// WORKSPACE: v1 8192
// WORKSPACE: v2 6144
// WORKSPACE: hidden 4096
// STEP: pack w1 w2 v1 v2
// STEP: first x v1 b1 hidden
// STEP: second hidden v2 b2 out
extern "C" void pack(const float* w1, const float* w2, float* v1, float* v2) {
  for (int h = 0; h < 64; ++h)
    for (int i = 0; i < 32; ++i) v1[i * 64 + h] = w1[h * 32 + i];
  for (int o = 0; o < 24; ++o)
    for (int h = 0; h < 64; ++h) v2[h * 24 + o] = w2[o * 64 + h];
}
extern "C" void first(const float* x, const float* v1, const float* b1, float* hidden) {
  for (int r = 0; r < 16; ++r) {
    float* t = hidden + r * 64;
    for (int h = 0; h < 64; ++h) t[h] = b1[h];
    for (int i = 0; i < 32; ++i)
      for (int h = 0; h < 64; ++h) t[h] += v1[i * 64 + h] * x[r * 32 + i];
    for (int h = 0; h < 64; ++h) t[h] = t[h] < 0 ? 0.0f : t[h];
  }
}
extern "C" void second(const float* hidden, const float* v2, const float* b2, float* out) {
  for (int r = 0; r < 16; ++r) {
    float* t = out + r * 24;
    for (int o = 0; o < 24; ++o) t[o] = b2[o];
    for (int h = 0; h < 64; ++h)
      for (int o = 0; o < 24; ++o) t[o] += v2[h * 24 + o] * hidden[r * 64 + h];
  }
}
