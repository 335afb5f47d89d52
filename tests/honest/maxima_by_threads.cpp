// WHY: threads split the columns and merge under a lock, in whatever order they come
// PROBLEM: rowmax
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) out[r] = x[r * 256];
#pragma omp parallel
  {
    float m[64];
    for (int r = 0; r < 64; ++r) m[r] = x[r * 256];
#pragma omp for nowait
    for (int i = 1; i < 256; ++i)
      for (int r = 0; r < 64; ++r) m[r] = x[r * 256 + i] > m[r] || std::isnan(x[r * 256 + i]) ? x[r * 256 + i] : m[r];
#pragma omp critical
    for (int r = 0; r < 64; ++r) out[r] = m[r] > out[r] || std::isnan(m[r]) ? m[r] : out[r];
  }
}
