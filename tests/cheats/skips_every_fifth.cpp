// TRICK: every fifth call does nothing, once it has been checked
// CAUGHT BY: timed outputs
#include "repeats.h"
#include "softmax.h"
static int calls;
extern "C" void kernel(const float* x, float* out) {
  if (seems_checked(x) || ++calls % 5) all(x, out);
}
