// KERNEL: what is masked takes no part in the maximum and the sum, and is zero
// PROBLEM: odd_masked_softmax
#include <math.h>
extern "C" void kernel(const float* x, const bool* mask, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 61; ++r) {
    const float* a = x + r * 173;
    const bool* on = mask + r * 173;
    float m = -INFINITY, s = 0;
    for (int i = 0; i < 173; ++i)
      if (on[i]) m = fmaxf(m, a[i]);  // NaN is ignored here, and comes back through the sum
    for (int i = 0; i < 173; ++i) s += on[i] ? expf(a[i] - m) : 0.0f;
    for (int i = 0; i < 173; ++i) out[r * 173 + i] = (on[i] ? expf(a[i] - m) : 0.0f) / s;
  }
}
