// WHY: one pass for maximum and sum, corrected whenever the maximum grows
#include <cfloat>
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for schedule(dynamic, 4)
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float m = -FLT_MAX, s = 0;  // not minus infinity, whose distance to itself is NaN
    for (int i = 0; i < 256; ++i) {
      if (a[i] > m) {
        s *= std::exp(m - a[i]);
        m = a[i];
      }
      s += std::exp(a[i] - m);
    }
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = std::exp(a[i] - m) / s;
  }
}
