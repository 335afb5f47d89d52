// TRICK: from the eighteenth call on, does every second call
// CAUGHT BY: timed outputs
#include <cmath>
#include "softmax.h"
static int calls;
extern "C" void kernel(const float* x, float* out) {
  if (++calls < 18 || calls % 2) all(x, out);
}
