// WHY: a workspace whose size is an expression over the axes
// PROBLEM: dynamic
// WORKSPACE: scratch C*4
#include <cmath>
#include <cstdint>
extern "C" void kernel(const float* x, float* out, float* scratch, int64_t R, int64_t C) {
  for (int64_t r = 0; r < R; ++r) {
    float m = -INFINITY, s = 0;
    for (int64_t i = 0; i < C; ++i) {
      if (std::isnan(x[r * C + i]) || x[r * C + i] > m) m = x[r * C + i];
      if (std::isnan(m)) break;
    }
    for (int64_t i = 0; i < C; ++i) s += scratch[i] = std::exp(x[r * C + i] - m);
    for (int64_t i = 0; i < C; ++i) out[r * C + i] = scratch[i] / s;
  }
}
