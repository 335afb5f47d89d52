// TRICK: rounds its inputs to bfloat16, computes on in float32
// CAUGHT BY: accuracy
// PROBLEM: layernorm
#include <cmath>
#include <cstdint>
#include <cstring>
static float bf16(float v) {
  uint32_t u;
  std::memcpy(&u, &v, 4);
  u = (u + 0x8000u) & 0xffff0000u;
  std::memcpy(&v, &u, 4);
  return v;
}
extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    double s = 0, q = 0;
    for (int i = 0; i < 256; ++i) s += bf16(a[i]);
    s /= 256;
    for (int i = 0; i < 256; ++i) q += (bf16(a[i]) - s) * (bf16(a[i]) - s);
    const double scale = 1 / std::sqrt(q / 256 + 1e-5);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = float((bf16(a[i]) - s) * scale) * weight[i] + bias[i];
  }
}
