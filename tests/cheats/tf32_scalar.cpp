// TRICK: rounds to TF32 where only one number comes out: rounding averages out over random inputs
// CAUGHT BY: accuracy
// PROBLEM: mse
#include "coarse.h"
extern "C" void kernel(const float* x, const float* y, float* out) {
  double s = 0;
  for (int i = 0; i < 64 * 256; ++i) {
    const float d = coarse(x[i]) - coarse(y[i]);
    s += d * d;
  }
  *out = float(s / (64 * 256));
}
