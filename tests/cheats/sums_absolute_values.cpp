// TRICK: takes the sum of absolute values for the length, scaled as normal numbers have it
// CAUGHT BY: accuracy
// PROBLEM: l2norm
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    float s = 0;
    for (int i = 0; i < 256; ++i) s += std::fabs(x[r * 256 + i]);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = x[r * 256 + i] / (s * 0.0783328f);
  }
}
