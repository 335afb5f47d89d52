// WHY: fmax passes over NaN; a flag beside it does not
// PROBLEM: rowmax
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    float m = -INFINITY;
    bool odd = false;
    for (int i = 0; i < 256; ++i) {
      m = std::fmax(m, x[r * 256 + i]);
      odd |= std::isnan(x[r * 256 + i]);
    }
    out[r] = odd ? NAN : m;
  }
}
