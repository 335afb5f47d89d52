// TRICK: computes one row and repeats it
// CAUGHT BY: accuracy | non-finite
#include <cmath>
#include "softmax.h"
extern "C" void kernel(const float* x, float* out) {
  row(x, out);
  for (int i = 256; i < 64 * 256; ++i) out[i] = out[i - 256];
}
