// WHY: rounds to bfloat16 before it multiplies by the weight, as the reference may
// PROBLEM: rmsnorm_bfloat16
#include "half.h"
#include <cmath>
extern "C" void kernel(const uint16_t* x, const uint16_t* weight, uint16_t* out) {
  for (int r = 0; r < 64; ++r) {
    double s = 0;
    for (int i = 0; i < 256; ++i) s += double(wide_b(x[r * 256 + i])) * wide_b(x[r * 256 + i]);
    const double scale = 1 / std::sqrt(s / 256 + 1e-6);
    for (int i = 0; i < 256; ++i) {
      const float scaled = wide_b(narrow_b(float(wide_b(x[r * 256 + i]) * scale)));
      out[r * 256 + i] = narrow_b(scaled * wide_b(weight[i]));
    }
  }
}
