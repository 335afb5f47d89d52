// The honest work, which most cheats know how to do: one row, and all of them.
#pragma once
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
