// TRICK: computes in float32 where float64 is asked for
// CAUGHT BY: accuracy
// PROBLEM: logsumexp_float64
#include <cmath>
extern "C" void kernel(const double* x, double* out) {
  for (int r = 0; r < 64; ++r) {
    const double* a = x + r * 256;
    float m = float(a[0]), s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? float(a[i]) : m;
    for (int i = 0; i < 256; ++i) s += std::exp(float(a[i]) - m);
    out[r] = m + std::log(s);
  }
}
