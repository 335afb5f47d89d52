// Every way in which OpenMP shares work and orders threads, each used as it should be.
#include <omp.h>

#include <cmath>

static float sums[64], biggest[64];
static int counted;

extern "C" void kernel(const float* x, float* out) {
  double all = 0.0;
  int seen = 0, last = 0;
  counted = 0;
#pragma omp parallel
  {
#pragma omp for schedule(dynamic, 3)
    for (int r = 0; r < 64; r++) {
      float m = x[r * 256];
#pragma omp simd reduction(max : m)
      for (int c = 1; c < 256; c++) m = x[r * 256 + c] > m ? x[r * 256 + c] : m;
      biggest[r] = m;
    }
#pragma omp for schedule(guided) nowait
    for (unsigned long r = 0; r < 64; r++) {
      float s = 0.0f;
      for (int c = 0; c < 256; c++) s += std::exp(x[r * 256 + c] - biggest[r]);
      sums[r] = s;
#pragma omp atomic
      counted++;
    }
#pragma omp barrier
#pragma omp for reduction(+ : all) lastprivate(last) schedule(static, 5)
    for (int r = 63; r >= 0; r--) {
      all += sums[r];
      last = r;
    }
#pragma omp single
    seen = counted;
#pragma omp critical
    seen = seen > counted ? seen : counted;
#pragma omp sections
    {
#pragma omp section
      sums[0] += 0.0f;
#pragma omp section
      sums[1] += 0.0f;
    }
    int mine;
#pragma omp single copyprivate(mine)
    mine = seen;
#pragma omp for ordered schedule(dynamic)
    for (int r = 0; r < 8; r++) {
#pragma omp ordered
      last += mine - 64;
    }
#pragma omp master
    last += omp_get_num_threads() * 0;
#pragma omp barrier
#pragma omp for collapse(2) schedule(runtime)
    for (int r = 0; r < 64; r++)
      for (int c = 0; c < 256; c++) out[r * 256 + c] = std::exp(x[r * 256 + c] - biggest[r]) / (sums[r] + float(last));
  }
}
