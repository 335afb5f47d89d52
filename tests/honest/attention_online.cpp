// WHY: one pass over keys and values with a running maximum (flash attention), in blocks of four keys
// PROBLEM: attention
#include <cfloat>
#include <cmath>
extern "C" void kernel(const float* q, const float* k, const float* v, float* out) {
  for (int n = 0; n < 64; ++n) {
    const float *query = q + n * 16, *keys = k + n / 32 * 512, *values = v + n / 32 * 512;
    float m = -FLT_MAX, s = 0, sums[16] = {};
    for (int j0 = 0; j0 < 32; j0 += 4) {
      float scores[4], top = m;
      for (int j = 0; j < 4; ++j) {
        float dot = 0;
        for (int d = 0; d < 16; ++d) dot += query[d] * keys[(j0 + j) * 16 + d];
        scores[j] = dot * 0.25f;
        top = scores[j] > top ? scores[j] : top;
      }
      const float shrink = std::exp(m - top);
      m = top;
      s *= shrink;
      for (float& sum : sums) sum *= shrink;
      for (int j = 0; j < 4; ++j) {
        const float p = std::exp(scores[j] - m);
        s += p;
        for (int d = 0; d < 16; ++d) sums[d] += p * values[(j0 + j) * 16 + d];
      }
    }
    for (int d = 0; d < 16; ++d) out[n * 16 + d] = sums[d] / s;
  }
}
