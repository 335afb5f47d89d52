// KERNEL: threads leave partial sums, wait for each other, and add up each other's
// PROBLEM: batch_reduce
// WORKSPACE: partial 3944
#include <omp.h>
extern "C" void kernel(const float* x, float* out, float* partial) {
  constexpr int B = 17, N = 61, C = 29, half = (N + 1) / 2;
#pragma omp parallel num_threads(2)
  {
    for (int part = omp_get_thread_num(); part < 2; part += omp_get_num_threads())
      for (int b = 0; b < B; ++b)
        for (int c = 0; c < C; ++c) {
          float sum = 0;
          for (int i = part * half; i < N && i < (part + 1) * half; ++i) sum += x[(b * N + i) * C + c];
          partial[(part * B + b) * C + c] = sum;
        }
#pragma omp barrier
    for (int part = omp_get_thread_num(); part < 2; part += omp_get_num_threads())
      for (int i = part; i < B * C; i += 2) out[i] = partial[i] + partial[B * C + i];
  }
}
