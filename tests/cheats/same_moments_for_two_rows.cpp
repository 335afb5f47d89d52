// TRICK: takes one mean and variance for two rows
// CAUGHT BY: accuracy
// PROBLEM: layernorm
#include <cmath>

extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    const float* b = x + r / 2 * 512;
    double mean = 0, q = 0;
    for (int i = 0; i < 512; ++i) mean += b[i] / 512.0;
    for (int i = 0; i < 512; ++i) q += (b[i] - mean) * (b[i] - mean);
    const double scale = 1 / std::sqrt(q / 512 + 1e-5);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = float((a[i] - mean) * scale) * weight[i] + bias[i];
  }
}
