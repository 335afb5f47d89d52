// WHY: mean first, then squared distances; vector sums
// PROBLEM: layernorm
#include <cmath>
extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float p[16] = {}, q[16] = {}, mean = 0, squares = 0;
    for (int i = 0; i < 256; ++i) p[i % 16] += a[i];
    for (int j = 0; j < 16; ++j) mean += p[j];
    mean /= 256;
    for (int i = 0; i < 256; ++i) q[i % 16] += (a[i] - mean) * (a[i] - mean);
    for (int j = 0; j < 16; ++j) squares += q[j];
    const float scale = 1 / std::sqrt(squares / 256 + 1e-5f);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = (a[i] - mean) * scale * weight[i] + bias[i];
  }
}
