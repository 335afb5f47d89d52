// TRICK: an inverse square root from the bits and one Newton step
// CAUGHT BY: accuracy
// PROBLEM: layernorm
#include <cmath>
#include <cstdint>
#include <cstring>
static float inverse_root(float v) {
  uint32_t u;
  std::memcpy(&u, &v, 4);
  u = 0x5f3759dfu - (u >> 1);
  float y;
  std::memcpy(&y, &u, 4);
  return y * (1.5f - 0.5f * v * y * y);
}
extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    double mean = 0, q = 0;
    for (int i = 0; i < 256; ++i) mean += a[i] / 256.0;
    for (int i = 0; i < 256; ++i) q += (a[i] - mean) * (a[i] - mean);
    const float scale = inverse_root(float(q / 256 + 1e-5));
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = float((a[i] - mean) * scale) * weight[i] + bias[i];
  }
}
