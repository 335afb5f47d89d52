// TRICK: sums and then adds a little less than any tolerance; small whole numbers allow none
// CAUGHT BY: accuracy
// PROBLEM: rowsum
// FAMILIES: exact
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    float s = 0;
    for (int i = 0; i < 256; ++i) s += x[r * 256 + i];
    out[r] = s * 1.0000004f;
  }
}
