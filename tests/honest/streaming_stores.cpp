// WHY: writes past the caches
#include <cmath>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float e[256], m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += e[i] = std::exp(a[i] - m);
#if defined(__SSE2__)
    for (int i = 0; i < 256; i += 4) _mm_stream_ps(out + r * 256 + i, _mm_div_ps(_mm_loadu_ps(e + i), _mm_set1_ps(s)));
    _mm_sfence();
#else
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = e[i] / s;
#endif
  }
}
