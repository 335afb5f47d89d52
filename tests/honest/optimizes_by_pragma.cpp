// WHY: a pragma asks for other optimisation, none of it at the cost of what is computed
#pragma GCC optimize("O3", "unroll-loops", "tree-vectorize")
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
#pragma GCC unroll 4
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float* o = out + r * 256;
    float m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += o[i] = std::exp(a[i] - m);
    for (int i = 0; i < 256; ++i) o[i] /= s;
  }
}
