// TRICK: keeps the last answer as long as first and last element stay
// CAUGHT BY: timed outputs
#include "softmax.h"
#include <cstring>
static float first, last, kept[64 * 256];
extern "C" void kernel(const float* x, float* out) {
  if (x[0] == first && x[64 * 256 - 1] == last) {
    std::memcpy(out, kept, sizeof kept);
    return;
  }
  all(x, out);
  first = x[0];
  last = x[64 * 256 - 1];
  std::memcpy(kept, out, sizeof kept);
}
