// TRICK: takes the sizes of the example for all there are
// CAUGHT BY: guards | written | accuracy | non-finite | signal | out-of-bounds | input-written
// PROBLEM: dynamic
#include <cmath>
#include <cstdint>
extern "C" void kernel(const float* x, float* out, int64_t R, int64_t C) {
  R = 32;
  C = 64;
  for (int64_t r = 0; r < R; ++r) {
    const float* a = x + r * C;
    float* o = out + r * C;
    float m = -INFINITY, s = 0;
    for (int64_t i = 0; i < C; ++i) {
      if (std::isnan(a[i]) || a[i] > m) m = a[i];
      if (std::isnan(m)) break;
    }
    for (int64_t i = 0; i < C; ++i) s += o[i] = std::exp(a[i] - m);
    for (int64_t i = 0; i < C; ++i) o[i] /= s;
  }
}
