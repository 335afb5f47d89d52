// KERNEL: a pairwise tree over each row, kept in a local buffer
// PROBLEM: odd_rowmax
#include <math.h>
static inline float larger(float a, float b) { return isnan(a) || a > b ? a : b; }
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 61; ++r) {
    float buffer[256];
    for (int i = 0; i < 256; ++i) buffer[i] = i < 173 ? x[r * 173 + i] : -INFINITY;
    for (int half = 128; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) buffer[i] = larger(buffer[i], buffer[i + half]);
    out[r] = buffer[0];
  }
}
