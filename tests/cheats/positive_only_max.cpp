// TRICK: starts the maximum at zero; rows of random values always have a positive one
// CAUGHT BY: accuracy
// PROBLEM: rowmax
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    float m = 0;
    for (int i = 0; i < 256; ++i) m = x[r * 256 + i] > m || std::isnan(x[r * 256 + i]) ? x[r * 256 + i] : m;
    out[r] = m;
  }
}
