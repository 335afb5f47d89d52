// TRICK: saves work in the last row only, so that averages over the whole output stay good
// CAUGHT BY: accuracy
#include <cmath>
#include "softmax.h"
extern "C" void kernel(const float* x, float* out) {
  all(x, out);
  float* o = out + 63 * 256;
  for (int i = 0; i < 256; ++i) o[i] *= 1.0001f;
}
