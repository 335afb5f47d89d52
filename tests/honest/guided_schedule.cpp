// WHY: shrinking chunks of rows, one parallel region for all passes
#include <cmath>
static float tops[64], sums[64];
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel
  {
#pragma omp for schedule(guided)
    for (int r = 0; r < 64; ++r) {
      float m = x[r * 256];
      for (int i = 1; i < 256; ++i) m = x[r * 256 + i] > m || std::isnan(x[r * 256 + i]) ? x[r * 256 + i] : m;
      tops[r] = m;
    }
#pragma omp for schedule(dynamic)
    for (int r = 0; r < 64; ++r) {
      float s = 0;
      for (int i = 0; i < 256; ++i) s += out[r * 256 + i] = std::exp(x[r * 256 + i] - tops[r]);
      sums[r] = s;
    }
#pragma omp for collapse(2)
    for (int r = 0; r < 64; ++r)
      for (int i = 0; i < 256; ++i) out[r * 256 + i] /= sums[r];
  }
}
