// WHY: scores of one query at a time
// PROBLEM: attention
#include <cmath>
extern "C" void kernel(const float* q, const float* k, const float* v, float* out) {
#pragma omp parallel for collapse(2)
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < 32; ++i) {
      const float *query = q + (b * 32 + i) * 16, *keys = k + b * 512, *values = v + b * 512;
      float scores[32], m = -INFINITY, s = 0, sums[16] = {};
      for (int j = 0; j < 32; ++j) {
        float dot = 0;
        for (int d = 0; d < 16; ++d) dot += query[d] * keys[j * 16 + d];
        scores[j] = dot * 0.25f;
        m = scores[j] > m || std::isnan(scores[j]) ? scores[j] : m;
      }
      for (int j = 0; j < 32; ++j) {
        s += scores[j] = std::exp(scores[j] - m);
        for (int d = 0; d < 16; ++d) sums[d] += scores[j] * values[j * 16 + d];
      }
      for (int d = 0; d < 16; ++d) out[(b * 32 + i) * 16 + d] = sums[d] / s;
    }
}
