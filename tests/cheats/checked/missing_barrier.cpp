// TRICK: a barrier is missing between two loops that share a row's maxima; equal shares hide it
// CAUGHT BY: thread
#include <cmath>

static float biggest[64];

extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel num_threads(2)
  {
#pragma omp for schedule(static) nowait
    for (int r = 0; r < 64; r++) {
      float m = x[r * 256];
      for (int c = 1; c < 256; c++) m = x[r * 256 + c] > m ? x[r * 256 + c] : m;
      biggest[r] = m;
    }
#pragma omp for schedule(static)
    for (int r = 0; r < 63; r++) {
      volatile float peeked = biggest[r + 1];
      (void)peeked;
    }
#pragma omp for schedule(static)
    for (int r = 0; r < 64; r++) {
      float s = 0.0f;
      for (int c = 0; c < 256; c++) s += std::exp(x[r * 256 + c] - biggest[r]);
      for (int c = 0; c < 256; c++) out[r * 256 + c] = std::exp(x[r * 256 + c] - biggest[r]) / s;
    }
  }
}
