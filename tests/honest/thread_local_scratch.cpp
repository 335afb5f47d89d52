// WHY: scratch memory that each thread keeps between calls and fills anew
#include <cmath>
static thread_local float e[256];
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += e[i] = std::exp(a[i] - m);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = e[i] / s;
  }
}
