// WHY: rows in the order of a generator of random numbers, columns backwards
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  unsigned r = 17;
  for (int n = 0; n < 64; ++n) {
    r = (r * 21 + 13) % 64;  // a full period
    const float* a = x + r * 256;
    float* o = out + r * 256;
    float m = a[255], s = 0;
    for (int i = 254; i >= 0; --i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; i += 2) s += o[i] = std::exp(a[i] - m);
    for (int i = 1; i < 256; i += 2) s += o[i] = std::exp(a[i] - m);
    for (int i = 255; i >= 0; --i) o[i] /= s;
  }
}
