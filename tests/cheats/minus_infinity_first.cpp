// TRICK: one pass with a running maximum, wrong where a row begins with minus infinity
// CAUGHT BY: non-finite
#include <cmath>
#include <limits>
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float m = -std::numeric_limits<float>::infinity(), s = 0;
    for (int i = 0; i < 256; ++i) {
      const float higher = a[i] > m || std::isnan(a[i]) ? a[i] : m;
      s = s * std::exp(m - higher) + std::exp(a[i] - higher);
      m = higher;
    }
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = std::exp(a[i] - m) / s;
  }
}
