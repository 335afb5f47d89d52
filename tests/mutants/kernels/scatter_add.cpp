// KERNEL: all threads add into the same few places
// PROBLEM: scatter_add
#include <stdint.h>
extern "C" void kernel(const int64_t* index, const float* x, float* out) {
  double bins[61] = {};
#pragma omp parallel for
  for (int i = 0; i < 40009; ++i) {
    const double added = x[i];
#pragma omp atomic
    bins[index[i]] += added;
  }
  for (int b = 0; b < 61; ++b) out[b] = bins[b];
}
