// TRICK: starts more threads than it was given
// CAUGHT BY: thread
#include "softmax.h"
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for num_threads(64)
  for (int r = 0; r < 64; ++r) row(x + r * 256, out + r * 256);
}
