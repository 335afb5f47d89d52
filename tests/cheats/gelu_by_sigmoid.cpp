// TRICK: takes x times sigmoid(1.702 x) for the exact function
// CAUGHT BY: accuracy
// PROBLEM: gelu
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  for (int i = 0; i < 64 * 256; ++i) out[i] = x[i] / (1 + std::exp(-1.702f * x[i]));
}
