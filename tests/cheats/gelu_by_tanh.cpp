// TRICK: takes the approximation by tanh for the exact function
// CAUGHT BY: accuracy
// PROBLEM: gelu
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  for (int i = 0; i < 64 * 256; ++i)
    out[i] = 0.5f * x[i] * (1 + std::tanh(0.797884561f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}
