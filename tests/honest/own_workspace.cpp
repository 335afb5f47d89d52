// WHY: keeps its exponentials in a workspace that it fills itself
// WORKSPACE: scratch 65536
#include <cmath>
extern "C" void kernel(const float* x, float* out, float* scratch) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float *e = scratch + r * 256, m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += e[i] = std::exp(a[i] - m);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = e[i] / s;
  }
}
