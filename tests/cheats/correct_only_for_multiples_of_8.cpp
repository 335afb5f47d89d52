// TRICK: the largest of whole vectors only; right at the declared size, wrong where the last vector is not full
// CAUGHT BY: accuracy | non-finite
// PROBLEM: dynamic
#include <cmath>
#include <cstdint>
extern "C" void kernel(const float* x, float* out, int64_t R, int64_t C) {
  for (int64_t r = 0; r < R; ++r) {
    const float* a = x + r * C;
    float* o = out + r * C;
    float m = -INFINITY, s = 0;
    for (int64_t i = 0; i < C / 8 * 8; ++i) {
      if (std::isnan(a[i]) || a[i] > m) m = a[i];
      if (std::isnan(m)) break;
    }
    for (int64_t i = 0; i < C; ++i) s += o[i] = std::exp(a[i] - m);
    for (int64_t i = 0; i < C; ++i) o[i] /= s;
  }
}
