// TRICK: counts on a workspace that starts with zeros
// CAUGHT BY: accuracy | non-finite
// WORKSPACE: sums 256
#include <cmath>
#include "softmax.h"
extern "C" void kernel(const float* x, float* out, float* sums) {
  all(x, out);
  for (int r = 0; r < 64; ++r) {
    for (int i = 0; i < 256; ++i) sums[r] += out[r * 256 + i];
    for (int i = 0; i < 256; ++i) out[r * 256 + i] /= sums[r];
    sums[r] = 0;
  }
}
