// WHY: divides by the length of each row, never by less than 1e-12
// PROBLEM: l2norm
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    float s = 0;
#pragma omp simd reduction(+ : s)
    for (int i = 0; i < 256; ++i) s += x[r * 256 + i] * x[r * 256 + i];
    const float length = std::sqrt(s), by = length < 1e-12f ? 1e-12f : length;
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = x[r * 256 + i] / by;
  }
}
