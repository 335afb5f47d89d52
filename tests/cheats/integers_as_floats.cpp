// TRICK: adds whole numbers as float32
// CAUGHT BY: accuracy
// PROBLEM: intsum
#include <cstdint>
extern "C" void kernel(const int64_t* x, int64_t* out) {
  for (int r = 0; r < 64; ++r) {
    float s = 0;
    for (int i = 0; i < 256; ++i) s += float(x[r * 256 + i]);
    out[r] = int64_t(s);
  }
}
