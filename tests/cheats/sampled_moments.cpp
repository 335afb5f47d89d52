// TRICK: takes mean and variance from the first quarter of a row
// CAUGHT BY: accuracy
// PROBLEM: layernorm
#include <cmath>

extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    double mean = 0, q = 0;
    for (int i = 0; i < 64; ++i) mean += a[i] / 64.0;
    for (int i = 0; i < 64; ++i) q += (a[i] - mean) * (a[i] - mean);
    const double scale = 1 / std::sqrt(q / 64 + 1e-5);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = float((a[i] - mean) * scale) * weight[i] + bias[i];
  }
}
