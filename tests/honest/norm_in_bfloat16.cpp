// WHY: bfloat16 in and out, sums in float32
// PROBLEM: rmsnorm_bfloat16
#include "half.h"
#include <cmath>
extern "C" void kernel(const uint16_t* x, const uint16_t* weight, uint16_t* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    float a[256], s = 0;
    for (int i = 0; i < 256; ++i) a[i] = wide_b(x[r * 256 + i]);
    for (int i = 0; i < 256; ++i) s += a[i] * a[i];
    const float scale = 1 / std::sqrt(s / 256 + 1e-6f);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = narrow_b(a[i] * scale * wide_b(weight[i]));
  }
}
