// KERNEL: through a tile, so that both sides are read and written along rows
// PROBLEM: transpose_add
extern "C" void kernel(const float* x, const float* y, float* out) {
  constexpr int R = 61, C = 173, T = 8;
#pragma omp parallel for
  for (int r0 = 0; r0 < R; r0 += T)
    for (int c0 = 0; c0 < C; c0 += T) {
      float tile[T][T];
      const int rows = R - r0 < T ? R - r0 : T;
      const int columns = C - c0 < T ? C - c0 : T;
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) tile[j][i] = x[(r0 + i) * C + c0 + j];
      for (int j = 0; j < columns; ++j)
        for (int i = 0; i < rows; ++i) out[(c0 + j) * R + r0 + i] = tile[j][i] + y[(c0 + j) * R + r0 + i];
    }
}
