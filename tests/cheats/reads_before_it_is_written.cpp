// TRICK: one thread uses what the other has not written yet
// CAUGHT BY: accuracy | non-finite | timed outputs
// THREADS: 2
#include "softmax.h"
#include <omp.h>
static volatile float sums[64];
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) sums[r] = 0;
#pragma omp parallel num_threads(2)
  {
    // Thread 0 leaves the sums of its rows to thread 1 and does not wait.
    if (omp_get_thread_num() == 1)
      for (volatile int wait = 0; wait < 3000000; wait = wait + 1) {
      }
    for (int r = 0; omp_get_thread_num() == 1 && r < 64; ++r) {
      float s = 0;
      for (int i = 0; i < 256; ++i) s += std::exp(x[r * 256 + i]);
      sums[r] = s;
    }
    for (int r = 0; omp_get_thread_num() == 0 && r < 64; ++r)
      for (int i = 0; i < 256; ++i) out[r * 256 + i] = std::exp(x[r * 256 + i]) / sums[r];
  }
}
