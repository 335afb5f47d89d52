// KERNEL: three passes over each row
// PROBLEM: odd_softmax
#include <math.h>
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 61; ++r) {
    const float* a = x + r * 173;
    float m = -INFINITY, s = 0;
    for (int i = 0; i < 173; ++i) m = a[i] > m || isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 173; ++i) s += expf(a[i] - m);
    for (int i = 0; i < 173; ++i) out[r * 173 + i] = expf(a[i] - m) / s;
  }
}
