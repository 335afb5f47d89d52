// TRICK: counts sign bits, so that zero is positive
// CAUGHT BY: accuracy
// PROBLEM: counts
#include <cstdint>
extern "C" void kernel(const float* x, int64_t* out) {
  const uint32_t* bits = reinterpret_cast<const uint32_t*>(x);
  for (int r = 0; r < 64; ++r) {
    out[r] = 0;
    for (int i = 0; i < 256; ++i) out[r] += 1 - (bits[r * 256 + i] >> 31);
  }
}
