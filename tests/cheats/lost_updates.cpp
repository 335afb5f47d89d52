// TRICK: threads add to one sum without a reduction clause
// CAUGHT BY: accuracy | timed outputs
// PROBLEM: mse
// THREADS: 2
#include <omp.h>
extern "C" void kernel(const float* x, const float* y, float* out) {
  static volatile double sum;
  sum = 0;
#pragma omp parallel
  {
    double mine = 0;
#pragma omp for
    for (int i = 0; i < 64 * 256; ++i) mine += double(x[i] - y[i]) * (x[i] - y[i]);
    const double before = sum;
#pragma omp barrier
    sum = before + mine;
  }
  *out = float(sum / (64 * 256));
}
