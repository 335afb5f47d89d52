// WHY: the loop over columns is the outer one: memory in the worst order
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  float m[64], s[64] = {};
  for (int r = 0; r < 64; ++r) m[r] = x[r * 256];
  for (int i = 1; i < 256; ++i)
    for (int r = 0; r < 64; ++r) m[r] = x[r * 256 + i] > m[r] || std::isnan(x[r * 256 + i]) ? x[r * 256 + i] : m[r];
  for (int i = 0; i < 256; ++i)
    for (int r = 0; r < 64; ++r) s[r] += out[r * 256 + i] = std::exp(x[r * 256 + i] - m[r]);
  for (int i = 0; i < 256; ++i)
    for (int r = 0; r < 64; ++r) out[r * 256 + i] /= s[r];
}
