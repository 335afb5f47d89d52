// WHY: two sections that split the rows between them
#include <cmath>
static void rows(const float* x, float* out, int first, int end) {
  for (int r = first; r < end; ++r) {
    const float* a = x + r * 256;
    float* o = out + r * 256;
    float m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += o[i] = std::exp(a[i] - m);
    for (int i = 0; i < 256; ++i) o[i] /= s;
  }
}
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel sections
  {
#pragma omp section
    rows(x, out, 0, 40);
#pragma omp section
    rows(x, out, 40, 64);
  }
}
