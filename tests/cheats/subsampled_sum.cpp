// TRICK: takes every second exponential twice for the sum
// CAUGHT BY: accuracy
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float *o = out + r * 256, m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) o[i] = std::exp(a[i] - m);
    for (int i = 0; i < 256; i += 2) s += 2 * o[i];
    for (int i = 0; i < 256; ++i) o[i] /= s;
  }
}
