// WHY: the library's logarithm of the gamma function, in double
// PROBLEM: lgamma
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for schedule(dynamic, 64)
  for (int i = 0; i < 64 * 256; ++i) out[i] = float(std::lgamma(double(x[i])));
}
