// TRICK: its first thread jumps out of a parallel region while the other works on
// CAUGHT BY: written | timeout | signal | accuracy | non-finite
// THREADS: 2
#include "softmax.h"
#include <omp.h>
static void* place[5];
extern "C" void kernel(const float* x, float* out) {
  if (__builtin_setjmp(place)) return;
#pragma omp parallel num_threads(2)
  {
    if (omp_get_thread_num() == 0) __builtin_longjmp(place, 1);
    for (volatile int wait = 0; wait < 30000000; wait = wait + 1) {
    }
    for (int r = 0; r < 64; ++r) row(x + r * 256, out + r * 256);
  }
}
