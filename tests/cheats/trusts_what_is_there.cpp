// TRICK: does nothing when the output does not look like poison
// CAUGHT BY: accuracy | timed outputs
#include <cmath>
#include "softmax.h"
extern "C" void kernel(const float* x, float* out) {
  if (std::isnan(out[0]) && std::isnan(out[5])) all(x, out);
}
