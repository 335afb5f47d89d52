// WHY: looks at the columns in halves, from the end
// PROBLEM: rowmax
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for num_threads(2)
  for (int r = 0; r < 64; ++r) {
    float m = x[r * 256 + 255];
    for (int i = 254; i >= 0; --i) m = x[r * 256 + i] > m || std::isnan(x[r * 256 + i]) ? x[r * 256 + i] : m;
    out[r] = m;
  }
}
