// TRICK: leaves the last element out
// CAUGHT BY: written
#include "softmax.h"
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 63; ++r) row(x + r * 256, out + r * 256);
  float last[256];
  row(x + 63 * 256, last);
  for (int i = 0; i < 255; ++i) out[63 * 256 + i] = last[i];
}
