// TRICK: passes over NaN, which the reference takes for the largest
// CAUGHT BY: accuracy | timed outputs
// PROBLEM: argmax
#include <cstdint>
extern "C" void kernel(const float* x, int64_t* out) {
  for (int r = 0; r < 64; ++r) {
    int best = 0;
    for (int i = 1; i < 256; ++i)
      if (x[r * 256 + i] > x[r * 256 + best]) best = i;
    out[r] = best;
  }
}
