// WHY: packs the answers of comparisons into words and counts their bits
// PROBLEM: counts
#include <cstdint>
extern "C" void kernel(const float* x, int64_t* out) {
  for (int r = 0; r < 64; ++r) {
    out[r] = 0;
    for (int w = 0; w < 4; ++w) {
      uint64_t word = 0;
      for (int i = 0; i < 64; ++i) word |= uint64_t(x[r * 256 + w * 64 + i] > 0) << i;
      out[r] += __builtin_popcountll(word);
    }
  }
}
