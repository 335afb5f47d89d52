// TRICK: takes whatever is smaller than 1e-20 for zero; so small are no ordinary inputs
// CAUGHT BY: accuracy
// PROBLEM: rowsum
// FAMILIES: tiny
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    float s = 0;
    for (int i = 0; i < 256; ++i) {
      const float v = x[r * 256 + i];
      s += std::fabs(v) < 1e-19f ? 0.0f : v;
    }
    out[r] = s;
  }
}
