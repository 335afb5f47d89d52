// TRICK: leaves out the weight, which starts as ones
// CAUGHT BY: accuracy
// PROBLEM: rmsnorm_bfloat16
#include "half.h"
#include <cmath>
extern "C" void kernel(const uint16_t* x, const uint16_t*, uint16_t* out) {
  for (int r = 0; r < 64; ++r) {
    float s = 0;
    for (int i = 0; i < 256; ++i) s += wide_b(x[r * 256 + i]) * wide_b(x[r * 256 + i]);
    const float scale = 1 / std::sqrt(s / 256 + 1e-6f);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = narrow_b(wide_b(x[r * 256 + i]) * scale);
  }
}
