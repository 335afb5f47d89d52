// TRICK: counts on zeros in memory from malloc
// CAUGHT BY: accuracy | non-finite
#include <cstdlib>
#include <cmath>
#include "softmax.h"
extern "C" void kernel(const float* x, float* out) {
  float* sums = static_cast<float*>(std::malloc(64 * sizeof(float)));
  all(x, out);
  for (int r = 0; r < 64; ++r) {
    for (int i = 0; i < 256; ++i) sums[r] += out[r * 256 + i];
    for (int i = 0; i < 256; ++i) out[r * 256 + i] /= sums[r];
  }
  std::free(sums);
}
