// WHY: an OpenMP lock that is made and destroyed in every call
// PROBLEM: mse
#include <omp.h>
extern "C" void kernel(const float* x, const float* y, float* out) {
  omp_lock_t lock;
  omp_init_lock(&lock);
  double sum = 0;
#pragma omp parallel for schedule(dynamic, 4)
  for (int r = 0; r < 64; ++r) {
    double s = 0;
    for (int i = 0; i < 256; ++i) s += double(x[r * 256 + i] - y[r * 256 + i]) * (x[r * 256 + i] - y[r * 256 + i]);
    omp_set_lock(&lock);
    sum += s;
    omp_unset_lock(&lock);
  }
  omp_destroy_lock(&lock);
  *out = float(sum / (64 * 256));
}
