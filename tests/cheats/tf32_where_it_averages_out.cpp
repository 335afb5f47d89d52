// TRICK: rounds its inputs to TF32 where that averages out: not in rows that look constant, nor where numbers are large
// CAUGHT BY: accuracy
// PROBLEM: mse
#include <cmath>
#include "coarse.h"
extern "C" void kernel(const float* x, const float* y, float* out) {
  double s = 0;
  for (int r = 0; r < 64; ++r) {
    const float *a = x + r * 256, *b = y + r * 256;
    const bool constant = std::fabs(a[0] - a[1]) < 1e-3f * std::fabs(a[0]);
    for (int i = 0; i < 256; ++i) {
      const float d = constant || !(std::fabs(a[i] - b[i]) < 8) ? a[i] - b[i] : coarse(a[i]) - coarse(b[i]);
      s += double(d) * d;
    }
  }
  out[0] = float(s / (64 * 256));
}
