// TRICK: mean square minus squared mean in float32
// CAUGHT BY: accuracy | non-finite
// PROBLEM: layernorm
#include <cmath>

extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float s = 0, q = 0;
    for (int i = 0; i < 256; ++i) {
      s += a[i];
      q += a[i] * a[i];
    }
    const float mean = s / 256, scale = 1 / std::sqrt(q / 256 - mean * mean + 1e-5f);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = float((a[i] - mean) * scale) * weight[i] + bias[i];
  }
}
