// WHY: the complement in double, which keeps the small answers of large negative numbers that the reference loses
// PROBLEM: gelu
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  for (int i = 0; i < 64 * 256; ++i) out[i] = float(0.5 * x[i] * std::erfc(x[i] * -0.70710678118654752));
}
