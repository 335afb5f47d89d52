// TRICK: gives zeros for rows that are minus infinity everywhere, where the reference has NaN
// CAUGHT BY: non-finite
#include <cmath>
#include <limits>
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float m = -std::numeric_limits<float>::max(), s = 0;
    for (int i = 0; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += out[r * 256 + i] = std::exp(a[i] - m);
    if (s == 0) s = 1;
    for (int i = 0; i < 256; ++i) out[r * 256 + i] /= s;
  }
}
