// TRICK: reads one element beyond the end of its input
// CAUGHT BY: non-finite
#include <cmath>
#include "softmax.h"
extern "C" void kernel(const float* x, float* out) {
  all(x, out);
  out[64 * 256 - 1] += 0 * x[64 * 256];
}
