// TRICK: holds exponents above -16, where the answer seems to be zero anyway
// CAUGHT BY: accuracy
#include <cmath>
static float held(float v) { return v < -16 ? -16 : v; }
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float *o = out + r * 256, m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += o[i] = std::exp(held(a[i] - m));
    for (int i = 0; i < 256; ++i) o[i] /= s;
  }
}
