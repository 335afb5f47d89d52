// OpenMP: reductions, worksharing, tasks
#include <cmath>
#include <cstdint>

void f(float* x, int n) {
  float s = 0;
#pragma omp parallel for reduction(+ : s)
  for (int i = 0; i < n; i++) s += std::exp(x[i]);
#pragma omp parallel
  {
#pragma omp single
    x[0] = s;
#pragma omp critical
    x[1] += s;
#pragma omp for schedule(dynamic, 4)
    for (int i = 0; i < n; i++) x[i] = s;
#pragma omp task
    x[2] = 1;
#pragma omp barrier
  }
}
void (*volatile p)(float*, int) = f;

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
