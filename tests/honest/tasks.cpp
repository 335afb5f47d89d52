// WHY: a task for every eight rows
#include <cmath>
static void row(const float* a, float* o) {
  float m = a[0], s = 0;
  for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
  for (int i = 0; i < 256; ++i) s += o[i] = std::exp(a[i] - m);
  for (int i = 0; i < 256; ++i) o[i] /= s;
}
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel
#pragma omp single
  for (int first = 0; first < 64; first += 8)
#pragma omp task firstprivate(first)
    for (int r = first; r < first + 8; ++r) row(x + r * 256, out + r * 256);
}
