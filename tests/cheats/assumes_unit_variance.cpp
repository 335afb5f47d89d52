// TRICK: leaves out the variance, which normal inputs have as one
// CAUGHT BY: accuracy
// PROBLEM: layernorm
#include <cmath>

extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    double mean = 0;
    for (int i = 0; i < 256; ++i) mean += a[i] / 256.0;
    const double scale = 1;
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = float((a[i] - mean) * scale) * weight[i] + bias[i];
  }
}
