// WHY: finds the largest value first and then where it stands
// PROBLEM: argmax
#include <cmath>
#include <cstdint>
extern "C" void kernel(const float* x, int64_t* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float m = a[0];
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    int at = 0;
    while (!(a[at] == m || std::isnan(a[at]))) ++at;
    out[r] = at;
  }
}
