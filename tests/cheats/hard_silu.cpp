// TRICK: replaces the sigmoid by a ramp
// CAUGHT BY: accuracy | non-finite
// PROBLEM: silu_float16
#include "half.h"
extern "C" void kernel(const uint16_t* x, uint16_t* out) {
  for (int i = 0; i < 64 * 256; ++i) {
    const float v = wide16(x[i]), gate = v < -3 ? 0 : v > 3 ? 1 : v / 6 + 0.5f;
    out[i] = narrow16(v * gate);
  }
}
