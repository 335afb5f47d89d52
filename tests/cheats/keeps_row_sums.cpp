// TRICK: keeps maximum and sum of each row by address and looks at the elements only
// CAUGHT BY: accuracy | non-finite | timed outputs
#include "softmax.h"
static const float* seen[4096];
static float top[4096][64], sum[4096][64];
static int count;
extern "C" void kernel(const float* x, float* out) {
  int k = 0;
  while (k < count && seen[k] != x) ++k;
  if (k == count && count < 4096) {
    seen[count++] = x;
    for (int r = 0; r < 64; ++r) {
      const float* a = x + r * 256;
      float m = a[0], s = 0;
      for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
      for (int i = 0; i < 256; ++i) s += std::exp(a[i] - m);
      top[k][r] = m;
      sum[k][r] = s;
    }
  }
  for (int i = 0; i < 64 * 256; ++i) out[i] = std::exp(x[i] - top[k][i / 256]) / sum[k][i / 256];
}
