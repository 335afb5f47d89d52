// TRICK: takes the first channel's weight and bias for its whole group
// CAUGHT BY: accuracy
// PROBLEM: groupnorm
#include <cmath>
extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
  for (int g = 0; g < 16; ++g) {
    const float* a = x + g * 256;
    double m = 0, q = 0;
    for (int i = 0; i < 256; ++i) m += a[i] / 256.0;
    for (int i = 0; i < 256; ++i) q += (a[i] - m) * (a[i] - m);
    const double scale = 1 / std::sqrt(q / 256 + 1e-5);
    for (int i = 0; i < 256; ++i) out[g * 256 + i] = float((a[i] - m) * scale) * weight[g % 4 * 4] + bias[g % 4 * 4];
  }
}
