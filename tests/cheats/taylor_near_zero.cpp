// TRICK: a Taylor polynomial that is right near zero only
// CAUGHT BY: accuracy | non-finite
#include <cmath>
static float exponential(float v) {
  return 1 + v * (1 + v / 2 * (1 + v / 3 * (1 + v / 4 * (1 + v / 5 * (1 + v / 6 * (1 + v / 7))))));
}
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float *o = out + r * 256, m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += o[i] = exponential(a[i] - m);
    for (int i = 0; i < 256; ++i) o[i] /= s;
  }
}
