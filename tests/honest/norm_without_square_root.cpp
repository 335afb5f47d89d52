// WHY: a reciprocal square root from the bits and four Newton steps, as exact as float32 can be
// PROBLEM: layernorm
#include <cstdint>
#include <cstring>
static float inverse_root(float v) {
  uint32_t u;
  std::memcpy(&u, &v, 4);
  u = 0x5f3759dfu - (u >> 1);
  float y;
  std::memcpy(&y, &u, 4);
  for (int step = 0; step < 4; ++step) y *= 1.5f - 0.5f * v * y * y;
  return v == v ? y : v;
}
extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float mean = 0, squares = 0, p[16] = {}, q[16] = {};
    for (int i = 0; i < 256; ++i) p[i % 16] += a[i];
    for (float lane : p) mean += lane / 256;
    for (int i = 0; i < 256; ++i) q[i % 16] += (a[i] - mean) * (a[i] - mean);
    for (float lane : q) squares += lane;
    const float scale = inverse_root(squares / 256 + 1e-5f);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = (a[i] - mean) * scale * weight[i] + bias[i];
  }
}
