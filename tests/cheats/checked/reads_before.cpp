// TRICK: reads the element before each row, of the first row as well, and does not use it
// CAUGHT BY: address
#include <cmath>

extern "C" void kernel(const float* x, float* out) {
  volatile float before;
  for (int r = 0; r < 64; r++) {
    const float* row = x + r * 256;
    before = row[-1];
    float m = row[0], s = 0.0f;
    for (int c = 1; c < 256; c++) m = row[c] > m ? row[c] : m;
    for (int c = 0; c < 256; c++) s += std::exp(row[c] - m);
    for (int c = 0; c < 256; c++) out[r * 256 + c] = std::exp(row[c] - m) / s;
  }
  (void)before;
}
