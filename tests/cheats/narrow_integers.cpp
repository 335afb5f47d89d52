// TRICK: adds in 32 bits
// CAUGHT BY: accuracy
// PROBLEM: intsum
#include <cstdint>
extern "C" void kernel(const int64_t* x, int64_t* out) {
  for (int r = 0; r < 64; ++r) {
    int32_t s = 0;
    for (int i = 0; i < 256; ++i) s = int32_t(uint32_t(s) + uint32_t(x[r * 256 + i]));
    out[r] = s;
  }
}
