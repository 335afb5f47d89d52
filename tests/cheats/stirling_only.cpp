// TRICK: takes Stirling's series, which is right for large arguments
// CAUGHT BY: accuracy | non-finite
// PROBLEM: lgamma
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  for (int i = 0; i < 64 * 256; ++i) {
    const double v = std::fabs(double(x[i]));
    out[i] = float((v - 0.5) * std::log(v) - v + 0.918938533204672742 + 1 / (12 * v));
  }
}
