// TRICK: keeps its counter behind the output, where nobody looks
// CAUGHT BY: guards
#include "softmax.h"
extern "C" void kernel(const float* x, float* out) {
  float& counter = out[64 * 256 + 200];
  counter = std::isnan(counter) ? 1 : counter + 1;
  if (counter < 12) all(x, out);
}
