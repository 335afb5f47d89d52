// KERNEL: mean, then the variance around it, then the affine map
// PROBLEM: odd_layernorm
#include <math.h>
extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
  constexpr int n = 173;
#pragma omp parallel for
  for (int r = 0; r < 61; ++r) {
    const float* a = x + r * n;
    double sum = 0, squares = 0;
    for (int i = 0; i < n; ++i) sum += a[i];
    const double mean = sum / n;
    for (int i = 0; i < n; ++i) {
      const double d = a[i] - mean;
      squares += d * d;
    }
    const float scale = 1.0 / sqrt(squares / n + 1e-5);
    for (int i = 0; i < n; ++i) out[r * n + i] = (float)(a[i] - mean) * scale * weight[i] + bias[i];
  }
}
