// TRICK: takes the answer from where it gave another one before
// CAUGHT BY: written | accuracy | non-finite
#include "softmax.h"
#include <cstring>
static const float* before;
extern "C" void kernel(const float* x, float* out) {
  if (before && before != out)
    std::memcpy(out, before, 64 * 256 * sizeof(float));
  else
    all(x, out);
  before = out;
}
