// WHY: more exact than a float64 reference
// PROBLEM: logsumexp_float64
#include <cmath>
extern "C" void kernel(const double* x, double* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const double* a = x + r * 256;
    double m = a[0];
    long double s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    if (std::isinf(m)) {
      out[r] = m;  // everything is minus infinity, or something is plus infinity
      for (int i = 0; i < 256; ++i) out[r] = std::isnan(a[i]) ? a[i] : out[r];
      continue;
    }
    for (int i = 0; i < 256; ++i) s += std::exp(a[i] - m);
    out[r] = double(m + std::log(s));
  }
}
