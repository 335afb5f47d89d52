// WHY: one number out of many rows, in double
// PROBLEM: cross_entropy
#include <cmath>
#include <cstdint>
extern "C" void kernel(const float* x, const int64_t* target, float* out) {
  double loss = 0;
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 100;
    double m = a[0], s = 0;
    for (int i = 1; i < 100; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 100; ++i) s += std::exp(a[i] - m);
    loss += m + std::log(s) - a[target[r]];
  }
  *out = float(loss / 64);
}
