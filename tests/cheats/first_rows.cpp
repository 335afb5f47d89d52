// TRICK: computes the first half of the rows
// CAUGHT BY: written
#include <cmath>
#include "softmax.h"
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 32; ++r) row(x + r * 256, out + r * 256);
}
