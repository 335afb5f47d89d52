// WHY: no division: takes the logarithm of the sum from the exponent, in double
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    double m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += std::exp(a[i] - m);
    const double shift = m + std::log(s);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = float(std::exp(a[i] - shift));
  }
}
