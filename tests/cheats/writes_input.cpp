// TRICK: sorts out the input in place, so that a later reference call would see other inputs
// CAUGHT BY: input-written
#include <cmath>
#include "softmax.h"
extern "C" void kernel(const float* x, float* out) {
  const_cast<float*>(x)[17] = 0;
  all(x, out);
}
