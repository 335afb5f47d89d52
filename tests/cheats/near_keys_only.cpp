// TRICK: looks at the sixteen keys next to each query
// CAUGHT BY: accuracy
// PROBLEM: attention
#include <cmath>
extern "C" void kernel(const float* q, const float* k, const float* v, float* out) {
  for (int n = 0; n < 64; ++n) {
    const int first = n % 32 < 8 ? 0 : n % 32 > 24 ? 16 : n % 32 - 8;
    float scores[16], m = -1e30f, s = 0, sums[16] = {};
    for (int j = 0; j < 16; ++j) {
      scores[j] = 0;
      for (int d = 0; d < 16; ++d) scores[j] += 0.25f * q[n * 16 + d] * k[(n / 32 * 32 + first + j) * 16 + d];
      m = scores[j] > m ? scores[j] : m;
    }
    for (int j = 0; j < 16; ++j) {
      s += scores[j] = std::exp(scores[j] - m);
      for (int d = 0; d < 16; ++d) sums[d] += scores[j] * v[(n / 32 * 32 + first + j) * 16 + d];
    }
    for (int d = 0; d < 16; ++d) out[n * 16 + d] = sums[d] / s;
  }
}
