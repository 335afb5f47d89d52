// WHY: aligned_alloc and free in every call
#include <cmath>
#include <cstdlib>
extern "C" void kernel(const float* x, float* out) {
  float* e = static_cast<float*>(std::aligned_alloc(64, 64 * 256 * sizeof(float)));
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += e[r * 256 + i] = std::exp(a[i] - m);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = e[r * 256 + i] / s;
  }
  std::free(e);
}
