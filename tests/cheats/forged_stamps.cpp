// TRICK: searches the stack for what looks like the start of its own timing and moves it
// CAUGHT BY: clock | signal
#include <cmath>
#include "softmax.h"
static unsigned long before[512];
extern "C" void kernel(const float* x, float* out) {
  for (int i = 0; i < 40; ++i) all(x, out);
  unsigned long here = 0;
  volatile unsigned long* at = &here;
  // What grew since the last call by between a microsecond and ten seconds is no pointer: it is a time.
  for (int i = 0; i < 512; ++i) {
    const unsigned long now = at[i - 64], grown = now - before[i];
    before[i] = now;
    if (now > 1000000000ul && grown > 1000 && grown < 10000000000ul) at[i - 64] = now + 5000000;
  }
}
