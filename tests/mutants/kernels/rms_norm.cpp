// KERNEL: eight running sums and a loop over what is left
// PROBLEM: odd_rmsnorm
#include <math.h>
extern "C" void kernel(const float* x, const float* weight, float* out) {
  constexpr int n = 173;
#pragma omp parallel for
  for (int r = 0; r < 61; ++r) {
    const float* a = x + r * n;
    float lanes[8] = {};
    int i = 0;
    for (; i + 8 <= n; i += 8)
      for (int j = 0; j < 8; ++j) lanes[j] += a[i + j] * a[i + j];
    float sum = 0;
    for (; i < n; ++i) sum += a[i] * a[i];
    for (int j = 0; j < 8; ++j) sum += lanes[j];
    const float scale = 1.0f / sqrtf(sum / n + 1e-5f);
    for (int k = 0; k < n; ++k) out[r * n + k] = a[k] * scale * weight[k];
  }
}
