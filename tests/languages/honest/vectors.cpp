// vector intrinsics, streaming stores and prefetching
#include <cstdint>
#if defined(__AVX2__)
#include <immintrin.h>

void f(float* o, const float* x, int n) {
  for (int i = 0; i + 8 <= n; i += 8) {
    _mm_prefetch(reinterpret_cast<const char*>(x + i + 64), _MM_HINT_T0);
    __m256 v = _mm256_loadu_ps(x + i);
    v = _mm256_fmadd_ps(v, v, _mm256_set1_ps(1.5f));
    _mm256_stream_ps(o + i, v);
  }
  _mm_sfence();
}
#else
void f(float* o, const float* x, int n) {
#pragma omp simd
  for (int i = 0; i < n; i++) o[i] = x[i] * x[i] + 1.5f;
}
#endif
void (*volatile p)(float*, const float*, int) = f;

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
