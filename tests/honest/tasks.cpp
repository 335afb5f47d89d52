// A task for each row, all awaited by the end of the region.
#include <cmath>

extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel
#pragma omp single
  for (int r = 0; r < 64; r++) {
#pragma omp task firstprivate(r)
    {
      const float* row = x + r * 256;
      float m = row[0], s = 0.0f;
      for (int c = 1; c < 256; c++) m = row[c] > m ? row[c] : m;
      for (int c = 0; c < 256; c++) s += std::exp(row[c] - m);
      for (int c = 0; c < 256; c++) out[r * 256 + c] = std::exp(row[c] - m) / s;
    }
  }
}
