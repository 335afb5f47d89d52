// KERNEL: maximum and sum in one pass, corrected whenever the maximum grows
// PROBLEM: odd_softmax
#include <float.h>
#include <math.h>
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 61; ++r) {
    const float* a = x + r * 173;
    float m = -FLT_MAX, s = 0;
    for (int i = 0; i < 173; ++i) {
      if (a[i] > m) {  // kw: equivalent off-by-one: of equals, the sum is corrected by a factor of one
        s *= expf(m - a[i]);
        m = a[i];
      }
      s += expf(a[i] - m);
    }
    for (int i = 0; i < 173; ++i) out[r * 173 + i] = expf(a[i] - m) / s;
  }
}
