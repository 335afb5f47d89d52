// TRICK: counts terms far below the maximum as zero
// CAUGHT BY: accuracy
#include <cmath>

extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float *o = out + r * 256, m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += o[i] = a[i] < m - 10 ? 0.0f : std::exp(a[i] - m);
    for (int i = 0; i < 256; ++i) o[i] /= s;
  }
}
