// WHY: two kernels, the first leaves maxima and sums in a workspace
// WORKSPACE: stats 512
// STEP: reduce x stats
// STEP: scale x stats out
#include <cmath>
extern "C" void reduce(const float* x, float* stats) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += std::exp(a[i] - m);
    stats[r] = m;
    stats[64 + r] = s;
  }
}
extern "C" void scale(const float* x, const float* stats, float* out) {
#pragma omp parallel for
  for (int i = 0; i < 64 * 256; ++i) out[i] = std::exp(x[i] - stats[i / 256]) / stats[64 + i / 256];
}
