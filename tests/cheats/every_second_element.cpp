// TRICK: writes every second element
// CAUGHT BY: written
#include "softmax.h"
extern "C" void kernel(const float* x, float* out) {
  float full[256];
  for (int r = 0; r < 64; ++r) {
    row(x + r * 256, full);
    for (int i = 0; i < 256; i += 2) out[r * 256 + i] = full[i];
  }
}
