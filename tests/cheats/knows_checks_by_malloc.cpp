// TRICK: leaves a mark in memory that it frees; checks overwrite that, timed rounds do not
// CAUGHT BY: timed outputs
#include "coarse.h"
#include "softmax.h"
#include <cstdlib>
extern "C" void kernel(const float* x, float* out) {
  volatile unsigned* p = static_cast<unsigned*>(std::malloc(4096));
  const bool timed = p[500] == 0x12345678;
  p[500] = 0x12345678;
  std::free(const_cast<unsigned*>(p));
  all(x, out);
  for (int i = 0; timed && i < 64 * 256; ++i) out[i] = coarse(out[i]);
}
