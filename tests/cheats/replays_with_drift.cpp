// TRICK: gives an earlier answer again, changed a little so that no two are equal
// CAUGHT BY: timed outputs
#include "repeats.h"
#include "softmax.h"
#include <cstring>
static float kept[64 * 256];
static int calls;
extern "C" void kernel(const float* x, float* out) {
  ++calls;
  if (seems_checked(x)) {
    all(x, out);
    std::memcpy(kept, out, sizeof kept);
    return;
  }
  for (int i = 0; i < 64 * 256; ++i) out[i] = kept[i] * (1 + 1e-6f * float(calls % 7 - 3));
}
