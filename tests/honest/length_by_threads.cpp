// WHY: one number out of all, parts by thread in double
// PROBLEM: norm
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  double s = 0;
#pragma omp parallel reduction(+ : s)
  {
    double mine = 0;
#pragma omp for nowait schedule(static, 100)
    for (int i = 0; i < 64 * 256; ++i) mine += double(x[i]) * x[i];
    s += mine;
  }
  *out = float(std::sqrt(s));
}
