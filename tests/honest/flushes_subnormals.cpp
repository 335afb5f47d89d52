// WHY: counts subnormal numbers as zero, as accelerators do
// FAMILIES: huge tiny shifted exact
#include <cmath>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel
  {
#if defined(__SSE2__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
#pragma omp for
    for (int r = 0; r < 64; ++r) {
      const float* a = x + r * 256;
      float m = a[0], s = 0;
      for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
      for (int i = 0; i < 256; ++i) s += out[r * 256 + i] = std::exp(a[i] - m);
      for (int i = 0; i < 256; ++i) out[r * 256 + i] /= s;
    }
  }
}
