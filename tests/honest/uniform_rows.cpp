// WHY: a short way for rows that really are uniform, after looking at every element
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float m = a[0], s = 0;
    bool same = std::isfinite(a[0]);
    for (int i = 1; i < 256; ++i) {
      same = same && a[i] == a[0];
      m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    }
    for (int i = 0; !same && i < 256; ++i) s += out[r * 256 + i] = std::exp(a[i] - m);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = same ? 1.0f / 256 : out[r * 256 + i] / s;
  }
}
