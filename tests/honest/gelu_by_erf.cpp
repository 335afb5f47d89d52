// WHY: the library's error function
// PROBLEM: gelu
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int i = 0; i < 64 * 256; ++i) out[i] = 0.5f * x[i] * (1 + std::erf(x[i] * 0.707106781f));
}
