// TRICK: gives hidden elements no share at all; wrong in rows that hide everything, which random masks never have
// CAUGHT BY: non-finite
// PROBLEM: masked
#include <cmath>
extern "C" void kernel(const float* x, const bool* mask, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 128;
    const bool* hidden = mask + r * 128;
    float m = -INFINITY, s = 0;
    for (int i = 0; i < 128; ++i) {
      const float v = hidden[i] ? -1e30f : a[i];
      if (std::isnan(v) || v > m) m = v;
      if (std::isnan(m)) break;
    }
    for (int i = 0; i < 128; ++i) s += out[r * 128 + i] = hidden[i] ? 0.0f : std::exp(a[i] - m);
    for (int i = 0; i < 128; ++i) out[r * 128 + i] /= s;
  }
}
