// WHY: windows at the edge are filled with minus infinity
// PROBLEM: maxpool
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  for (int n = 0; n < 32 * 64; ++n) {
    const int p = n / 64, i = n / 8 % 8, j = n % 8;
    float m = -INFINITY;
    for (int u = 2 * i - 1; u <= 2 * i + 1; ++u)
      for (int v = 2 * j - 1; v <= 2 * j + 1; ++v) {
        const float e = u >= 0 && v >= 0 ? x[p * 256 + u * 16 + v] : -INFINITY;
        m = e > m || std::isnan(e) ? e : m;
      }
    out[n] = m;
  }
}
