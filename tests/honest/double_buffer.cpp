// WHY: two halves of a workspace that swap roles while the columns are folded
// WORKSPACE: scratch 131072
#include <cmath>
#include <utility>
extern "C" void kernel(const float* x, float* out, float* scratch) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float *from = scratch + r * 512, *to = from + 256, m = a[0];
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) from[i] = out[r * 256 + i] = std::exp(a[i] - m);
    for (int n = 128; n; n /= 2, std::swap(from, to))
      for (int i = 0; i < n; ++i) to[i] = from[2 * i] + from[2 * i + 1];
    for (int i = 0; i < 256; ++i) out[r * 256 + i] /= from[0];
  }
}
