// TRICK: computes in float16 and gives float32 back
// CAUGHT BY: accuracy
#include <cmath>
#include "coarse.h"
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float* o = out + r * 256;
    float m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += o[i] = coarse(std::exp(coarse(a[i]) - coarse(m)));
    for (int i = 0; i < 256; ++i) o[i] = coarse(o[i] / s);
  }
}
