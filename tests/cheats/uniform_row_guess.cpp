// TRICK: takes a row for uniform when its first two elements are equal
// CAUGHT BY: accuracy | non-finite
#include <cmath>
#include "softmax.h"
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    if (x[r * 256] != x[r * 256 + 1]) {
      row(x + r * 256, out + r * 256);
      continue;
    }
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = 1.0f / 256;
  }
}
