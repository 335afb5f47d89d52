// TRICK: computes at the first call and copies that answer ever after
// CAUGHT BY: accuracy
#include "softmax.h"
#include <cstring>
static float kept[64 * 256];
static bool ready;
extern "C" void kernel(const float* x, float* out) {
  if (!ready) all(x, kept);
  ready = true;
  std::memcpy(out, kept, sizeof kept);
}
