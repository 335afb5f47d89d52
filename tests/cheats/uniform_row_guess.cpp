// TRICK: takes a row for uniform when its first two elements are equal
// CAUGHT BY: accuracy | non-finite
#include <cmath>
static void row(const float* a, float* o) {
  float m = a[0];
  for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
  float s = 0;
  for (int i = 0; i < 256; ++i) s += o[i] = std::exp(a[i] - m);
  for (int i = 0; i < 256; ++i) o[i] /= s;
}
static void all(const float* x, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) row(x + r * 256, out + r * 256);
}
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    if (x[r * 256] != x[r * 256 + 1]) {
      row(x + r * 256, out + r * 256);
      continue;
    }
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = 1.0f / 256;
  }
}
