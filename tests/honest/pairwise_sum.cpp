// WHY: sums by halves, another tree than the reference's
#include <cmath>
static float sum(const float* a, int n) {
  if (n <= 8) {
    float s = 0;
    for (int i = 0; i < n; ++i) s += a[i];
    return s;
  }
  return sum(a, n / 2) + sum(a + n / 2, n - n / 2);
}
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float* o = out + r * 256;
    float m = a[0];
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) o[i] = std::exp(a[i] - m);
    const float s = sum(o, 256);
    for (int i = 0; i < 256; ++i) o[i] /= s;
  }
}
