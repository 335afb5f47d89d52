// WHY: carries what rounding lost along (Kahan), so that its sum is better than the reference's
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for schedule(static, 3)
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float* o = out + r * 256;
    float m = a[0], s = 0, lost = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) {
      const float y = (o[i] = std::exp(a[i] - m)) - lost, t = s + y;
      lost = (t - s) - y;
      s = t;
    }
    for (int i = 0; i < 256; ++i) o[i] /= s;
  }
}
