// WHY: a product in tiles, K split into parts that are added at the end
// PROBLEM: matmul
#include <cstring>
extern "C" void kernel(const float* a, const float* b, float* out) {
  std::memset(out, 0, 48 * 40 * sizeof(float));
#pragma omp parallel for collapse(2)
  for (int i0 = 0; i0 < 48; i0 += 8)
    for (int j0 = 0; j0 < 40; j0 += 8)
      for (int k0 = 0; k0 < 64; k0 += 16) {
        float tile[8][8] = {};
        for (int k = k0; k < k0 + 16; ++k)
          for (int i = 0; i < 8; ++i)
            for (int j = 0; j < 8; ++j) tile[i][j] += a[(i0 + i) * 64 + k] * b[k * 40 + j0 + j];
        for (int i = 0; i < 8; ++i)
          for (int j = 0; j < 8; ++j) out[(i0 + i) * 40 + j0 + j] += tile[i][j];
      }
}
