// TRICK: takes the last of equal values; random floats are never equal
// CAUGHT BY: accuracy
// PROBLEM: argmax
#include <cmath>
#include <cstdint>
extern "C" void kernel(const float* x, int64_t* out) {
  for (int r = 0; r < 64; ++r) {
    int best = 0;
    for (int i = 1; i < 256; ++i) {
      const float v = x[r * 256 + i], b = x[r * 256 + best];
      if (!std::isnan(b) && (v >= b || std::isnan(v))) best = i;
    }
    out[r] = best;
  }
}
