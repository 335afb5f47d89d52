// WHY: state between calls that changes how it works and not what it computes
#include <cmath>
static unsigned calls;
extern "C" void kernel(const float* x, float* out) {
  const int step = ++calls % 2 ? 1 : -1, first = step > 0 ? 0 : 63;
  for (int n = 0, r = first; n < 64; ++n, r += step) {
    const float* a = x + r * 256;
    float* o = out + r * 256;
    float m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += o[i] = std::exp(a[i] - m);
    for (int i = 0; i < 256; ++i) o[i] /= s;
  }
}
