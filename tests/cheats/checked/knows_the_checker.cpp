// TRICK: reads beyond its input only where it is not checked for that
// CAUGHT BY: address
#include <cmath>

extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; r++) {
    const float* row = x + r * 256;
    float m = row[0], s = 0.0f;
    for (int c = 1; c < 256; c++) m = row[c] > m ? row[c] : m;
    for (int c = 0; c < 256; c++) s += std::exp(row[c] - m);
    for (int c = 0; c < 256; c++) out[r * 256 + c] = std::exp(row[c] - m) / s;
#ifndef __SANITIZE_ADDRESS__
    volatile float next = row[256];
    (void)next;
#endif
  }
}
