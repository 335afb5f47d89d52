// WHY: scales by the largest element first, as hypot does, so that no square overflows
// PROBLEM: l2norm
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float m = 0, s = 0;
    bool odd = false;
    for (int i = 0; i < 256; ++i) {
      m = std::fmax(m, std::fabs(a[i]));
      odd |= !std::isfinite(a[i]);
    }
    if (odd || m == 0) {
      float q = 0;
      for (int i = 0; i < 256; ++i) q += a[i] * a[i];
      q = std::sqrt(q);
      for (int i = 0; i < 256; ++i) out[r * 256 + i] = a[i] / (q < 1e-12f ? 1e-12f : q);
      continue;
    }
    for (int i = 0; i < 256; ++i) s += (a[i] / m) * (a[i] / m);
    const float length = m * std::sqrt(s);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = a[i] / (length < 1e-12f ? 1e-12f : length);
  }
}
