// WHY: adds low and high halves apart and puts them together at the end
// PROBLEM: intsum
#include <cstdint>
extern "C" void kernel(const int64_t* x, int64_t* out) {
  for (int r = 0; r < 64; ++r) {
    uint64_t low = 0, high = 0;
    for (int i = 0; i < 256; ++i) {
      low += uint64_t(x[r * 256 + i]) & 0xffffffffu;
      high += uint64_t(x[r * 256 + i]) >> 32;
    }
    out[r] = int64_t((high << 32) + low);
  }
}
