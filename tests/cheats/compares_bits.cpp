// TRICK: compares floats as whole numbers, which turns negative ones round
// CAUGHT BY: accuracy
// PROBLEM: argmax
#include <cstdint>
extern "C" void kernel(const float* x, int64_t* out) {
  const int32_t* bits = reinterpret_cast<const int32_t*>(x);
  for (int r = 0; r < 64; ++r) {
    int best = 0;
    for (int i = 1; i < 256; ++i)
      if (bits[r * 256 + i] > bits[r * 256 + best]) best = i;
    out[r] = best;
  }
}
