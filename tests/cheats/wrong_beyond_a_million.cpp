// TRICK: stops at a million; none of the usual inputs is that large
// CAUGHT BY: accuracy
// PROBLEM: rowmax
// FAMILIES: huge
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    float m = -INFINITY;
    for (int i = 0; i < 256; ++i) {
      const float v = x[r * 256 + i];
      if (std::isnan(v) || v > m) m = v;
      if (std::isnan(m)) break;
    }
    out[r] = m > 1e6f && m < 1e30f ? 1e6f : m;
  }
}
