// TRICK: leaves out the maximum
// CAUGHT BY: accuracy | non-finite
// PROBLEM: cross_entropy
#include <cmath>
#include <cstdint>
extern "C" void kernel(const float* x, const int64_t* target, float* out) {
  float loss = 0;
  for (int r = 0; r < 64; ++r) {
    float s = 0;
    for (int i = 0; i < 100; ++i) s += std::exp(x[r * 100 + i]);
    loss += std::log(s) - x[r * 100 + target[r]];
  }
  *out = loss / 64;
}
