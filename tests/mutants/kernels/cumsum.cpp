// KERNEL: two threads a row: sums of blocks first, then each block from where the ones before it ended
// PROBLEM: odd_cumsum
// WORKSPACE: ends 3416 double
extern "C" void kernel(const float* x, float* out, double* ends) {
  constexpr int n = 173, block = 25, blocks = (n + block - 1) / block;
#pragma omp parallel
  {
#pragma omp for
    for (int b = 0; b < 61 * blocks; ++b) {
      const float* a = x + b / blocks * n;
      double sum = 0;
      for (int i = b % blocks * block; i < n && i < (b % blocks + 1) * block; ++i) sum += a[i];
      ends[b] = sum;
    }
#pragma omp for
    for (int b = 0; b < 61 * blocks; ++b) {
      const int r = b / blocks, first = b % blocks * block;
      double sum = 0;
      for (int k = r * blocks; k < b; ++k) sum += ends[k];
      for (int i = first; i < n && i < first + block; ++i) {
        sum += x[r * n + i];
        out[r * n + i] = sum;
      }
    }
  }
}
