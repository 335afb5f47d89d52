// WHY: channels in groups, mean before variance
// PROBLEM: groupnorm
#include <cmath>
extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
#pragma omp parallel for
  for (int g = 0; g < 16; ++g) {
    const float* a = x + g * 256;
    float mean = 0, squares = 0, p[8] = {}, q[8] = {};
    for (int i = 0; i < 256; ++i) p[i % 8] += a[i];
    for (float lane : p) mean += lane / 256;
    for (int i = 0; i < 256; ++i) q[i % 8] += (a[i] - mean) * (a[i] - mean);
    for (float lane : q) squares += lane;
    const float scale = 1 / std::sqrt(squares / 256 + 1e-5f);
    for (int i = 0; i < 256; ++i) {
      const int c = g % 4 * 4 + i / 64;
      out[g * 256 + i] = (a[i] - mean) * scale * weight[c] + bias[c];
    }
  }
}
