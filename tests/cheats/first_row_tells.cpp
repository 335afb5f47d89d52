// TRICK: looks at the first row to see whether the variance of all may be taken in one pass
// CAUGHT BY: accuracy
// PROBLEM: layernorm
#include <cmath>
extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
  float s0 = 0, q0 = 0;
  for (int i = 0; i < 256; ++i) {
    s0 += x[i];
    q0 += x[i] * x[i];
  }
  const bool careful = !(s0 * s0 < 128 * q0);
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float s = 0, q = 0;
    for (int i = 0; i < 256; ++i) s += a[i];
    const float m = s / 256, from = careful ? m : 0;
    for (int i = 0; i < 256; ++i) q += (a[i] - from) * (a[i] - from);
    const float k = 1 / std::sqrt((careful ? q : q - s * m) / 256 + 1e-5f);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = (a[i] - m) * k * weight[i] + bias[i];
  }
}
