// TRICK: leaves out the maximum of the scores
// CAUGHT BY: accuracy | non-finite
// PROBLEM: attention
#include <cmath>
extern "C" void kernel(const float* q, const float* k, const float* v, float* out) {
  for (int n = 0; n < 64; ++n) {
    float s = 0, sums[16] = {};
    for (int j = 0; j < 32; ++j) {
      float dot = 0;
      for (int d = 0; d < 16; ++d) dot += q[n * 16 + d] * k[(n / 32 * 32 + j) * 16 + d];
      const float p = std::exp(dot * 0.25f);
      s += p;
      for (int d = 0; d < 16; ++d) sums[d] += p * v[(n / 32 * 32 + j) * 16 + d];
    }
    for (int d = 0; d < 16; ++d) out[n * 16 + d] = sums[d] / s;
  }
}
