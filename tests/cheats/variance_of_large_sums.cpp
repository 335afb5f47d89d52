// TRICK: mean of squares less square of the mean: nothing is left of it where the mean is a thousand times the spread
// CAUGHT BY: accuracy | non-finite
// PROBLEM: layernorm
// FAMILIES: shifted
#include <cmath>
extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float s = 0, q = 0;
    for (int i = 0; i < 256; ++i) s += a[i], q += a[i] * a[i];
    const float mean = s / 256, variance = q / 256 - mean * mean;
    const float scale = 1 / std::sqrt((variance < 0 ? 0 : variance) + 1e-5f);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = (a[i] - mean) * scale * weight[i] + bias[i];
  }
}
