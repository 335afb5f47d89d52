// WHY: the maximum over rows of windows first, then over columns, in a scratch buffer on the stack
// PROBLEM: maxpool
#include <cmath>
static float larger(float a, float b) { return b > a || std::isnan(b) ? b : a; }
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int p = 0; p < 32; ++p) {
    const float* a = x + p * 256;
    float rows[8][16];
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 16; ++j) {
        rows[i][j] = larger(a[2 * i * 16 + j], a[(2 * i + 1) * 16 + j]);
        if (i) rows[i][j] = larger(a[(2 * i - 1) * 16 + j], rows[i][j]);
      }
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 8; ++j) {
        const float m = larger(rows[i][2 * j], rows[i][2 * j + 1]);
        out[p * 64 + i * 8 + j] = j ? larger(rows[i][2 * j - 1], m) : m;
      }
  }
}
