// WHY: interleaves rows that have nothing to do with each other
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 32; ++r) {
    const float *a = x + r * 256, *b = x + (63 - r) * 256;
    float *o = out + r * 256, *p = out + (63 - r) * 256, m = a[0], n = b[0], s = 0, t = 0;
    for (int i = 1; i < 256; ++i) {
      m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
      n = b[i] > n || std::isnan(b[i]) ? b[i] : n;
    }
    for (int i = 0; i < 256; ++i) {
      s += o[i] = std::exp(a[i] - m);
      t += p[i] = std::exp(b[i] - n);
    }
    for (int i = 0; i < 256; ++i) {
      o[i] /= s;
      p[i] /= t;
    }
  }
}
