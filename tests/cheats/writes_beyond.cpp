// TRICK: writes a full vector where a part of one was left
// CAUGHT BY: guards
#include <cmath>
#include "softmax.h"
extern "C" void kernel(const float* x, float* out) {
  all(x, out);
  out[64 * 256 + 3] = 0;
}
