// TRICK: writes an element in front of its output
// CAUGHT BY: guards
#include "softmax.h"
extern "C" void kernel(const float* x, float* out) {
  all(x, out);
  out[-1] = 0;
}
