// TRICK: from the eighteenth call on leaves the second half of the rows as the call before left them
// CAUGHT BY: timed outputs
#include <cmath>
#include "softmax.h"
static int calls;
extern "C" void kernel(const float* x, float* out) {
  const int rows = ++calls < 18 ? 64 : 32;
  for (int r = 0; r < rows; ++r) row(x + r * 256, out + r * 256);
}
