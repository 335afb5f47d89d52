// WHY: float16 carried as bits, computed in float32, rounded by whole-number arithmetic
// PROBLEM: silu_float16
#include "half.h"
#include <cmath>
extern "C" void kernel(const uint16_t* x, uint16_t* out) {
#pragma omp parallel for
  for (int i = 0; i < 64 * 256; ++i) {
    const float v = wide16(x[i]);
    out[i] = narrow16(v / (1 + std::exp(-v)));
  }
}
