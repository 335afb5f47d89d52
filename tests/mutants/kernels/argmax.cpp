// KERNEL: the first of equal values; NaN is the largest
// PROBLEM: odd_argmax
#include <math.h>
#include <stdint.h>
extern "C" void kernel(const float* x, int64_t* out) {
#pragma omp parallel for
  for (int r = 0; r < 61; ++r) {
    const float* a = x + r * 173;
    int best = 0;
    for (int i = 1; i < 173; ++i)
      if (!isnan(a[best]) && (a[i] > a[best] || isnan(a[i]))) best = i;
    out[r] = best;
  }
}
