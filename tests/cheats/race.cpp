// TRICK: threads share one running sum
// CAUGHT BY: accuracy | timed outputs
// THREADS: 2
#include <cmath>
#include <omp.h>
static volatile float s;
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel
  for (int r = omp_get_thread_num(); r < 64; r += omp_get_num_threads()) {
    const float* a = x + r * 256;
    float* o = out + r * 256;
    float m = a[0], sum = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) sum += o[i] = std::exp(a[i] - m);
    s = sum;
#pragma omp barrier
    for (int i = 0; i < 256; ++i) o[i] /= s;
  }
}
