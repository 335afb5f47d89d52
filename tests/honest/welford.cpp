// WHY: mean and variance in one pass by Welford's update, another algorithm than the reference's
// PROBLEM: layernorm
// FAMILIES: huge tiny shifted exact
#include <cmath>
extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float mean = 0, squares = 0;
    for (int i = 0; i < 256; ++i) {
      const float d = a[i] - mean;
      mean += d / (i + 1);
      squares += d * (a[i] - mean);
    }
    const float scale = 1 / std::sqrt(squares / 256 + 1e-5f);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = (a[i] - mean) * scale * weight[i] + bias[i];
  }
}
