// KERNEL: 16 by 16 tiles, guarded at the edges
// PROBLEM: odd_matmul
extern "C" void kernel(const float* a, const float* b, float* out) {
  constexpr int M = 61, K = 83, N = 47, T = 16;
#pragma omp parallel for collapse(2)
  for (int row = 0; row < (M + T - 1) / T; ++row)
    for (int column = 0; column < (N + T - 1) / T; ++column) {
      double sums[T][T] = {};
      for (int start = 0; start < K; start += T) {
        float left[T][T] = {}, right[T][T] = {};
        for (int i = 0; i < T; ++i)
          for (int k = 0; k < T; ++k)
            if (row * T + i < M && start + k < K) left[i][k] = a[(row * T + i) * K + start + k];
        for (int k = 0; k < T; ++k)
          for (int j = 0; j < T; ++j)
            if (start + k < K && column * T + j < N) right[k][j] = b[(start + k) * N + column * T + j];
        for (int i = 0; i < T; ++i)
          for (int k = 0; k < T; ++k)
            for (int j = 0; j < T; ++j) sums[i][j] += left[i][k] * right[k][j];
      }
      for (int i = 0; i < T && row * T + i < M; ++i)
        for (int j = 0; j < T && column * T + j < N; ++j)
          out[(row * T + i) * N + column * T + j] = sums[i][j];
    }
}
