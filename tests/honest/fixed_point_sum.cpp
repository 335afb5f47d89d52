// WHY: sums in whole numbers, so that the order of threads and lanes does not matter
#include <cmath>
#include <cstdint>
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float* o = out + r * 256;
    float m = a[0];
    int64_t s = 0;
    bool odd = false;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) {
      o[i] = std::exp(a[i] - m);
      odd |= std::isnan(o[i]);
      s += std::isnan(o[i]) ? 0 : static_cast<int64_t>(o[i] * 0x1p48f);
    }
    const float total = odd ? std::nanf("") : float(s) * 0x1p-48f;
    for (int i = 0; i < 256; ++i) o[i] /= total;
  }
}
