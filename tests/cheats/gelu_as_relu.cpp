// TRICK: takes whatever is far from zero for linear
// CAUGHT BY: accuracy
// PROBLEM: gelu
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  for (int i = 0; i < 64 * 256; ++i)
    out[i] = x[i] > 3 ? x[i] : x[i] < -3 ? 0.0f : 0.5f * x[i] * (1 + std::erf(x[i] * 0.707106781f));
}
