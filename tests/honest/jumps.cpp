// WHY: loops made of goto, and a switch that enters an unrolled loop in the middle
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  int r = 0;
again:
  const float* a = x + r * 256;
  float* o = out + r * 256;
  float m = a[0], s = 0;
  int i = 1;
  switch (255 % 4) {
    for (; i < 256;) {
      m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
      ++i;
      case 3:
        m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
        ++i;
      case 2:
        m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
        ++i;
      case 1:
        m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
        ++i;
    }
  }
  for (i = 0; i < 256; ++i) s += o[i] = std::exp(a[i] - m);
  for (i = 0; i < 256; ++i) o[i] /= s;
  if (++r < 64) goto again;
}
