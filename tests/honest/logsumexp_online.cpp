// WHY: one pass in float64 with a running maximum
// PROBLEM: logsumexp_float64
#include <cfloat>
#include <cmath>
extern "C" void kernel(const double* x, double* out) {
  for (int r = 0; r < 64; ++r) {
    const double* a = x + r * 256;
    double m = -DBL_MAX, s = 0;
    bool infinite = false;
    for (int i = 0; i < 256; ++i) {
      infinite |= a[i] == INFINITY;
      if (a[i] > m) {
        s *= std::exp(m - a[i]);
        m = a[i];
      }
      s += std::exp(a[i] - m);
    }
    bool odd = false;
    for (int i = 0; i < 256; ++i) odd |= std::isnan(a[i]);
    out[r] = odd ? NAN : infinite ? INFINITY : s == 0 ? -INFINITY : m + std::log(s);
  }
}
