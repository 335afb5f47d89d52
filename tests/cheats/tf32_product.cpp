// TRICK: multiplies in TF32 where float32 is asked for
// CAUGHT BY: accuracy
// PROBLEM: matmul
#include "coarse.h"
extern "C" void kernel(const float* a, const float* b, float* out) {
  for (int i = 0; i < 48; ++i)
    for (int j = 0; j < 40; ++j) {
      float s = 0;
      for (int k = 0; k < 64; ++k) s += coarse(a[i * 64 + k]) * coarse(b[k * 40 + j]);
      out[i * 40 + j] = s;
    }
}
