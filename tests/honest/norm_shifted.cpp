// WHY: one pass over distances to the first element, so that nothing large cancels
// PROBLEM: layernorm
#include <cmath>
extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float p[16] = {}, q[16] = {};
    double s = 0, t = 0;
    for (int i = 0; i < 256; ++i) {
      const float d = a[i] - a[0];
      p[i % 16] += d;
      q[i % 16] += d * d;
    }
    for (int j = 0; j < 16; ++j) {
      s += p[j];
      t += q[j];
    }
    const double mean = s / 256;
    const float scale = float(1 / std::sqrt(t / 256 - mean * mean + 1e-5));
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = float(a[i] - (a[0] + mean)) * scale * weight[i] + bias[i];
  }
}
