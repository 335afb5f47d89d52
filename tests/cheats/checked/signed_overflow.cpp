// TRICK: an index overflows on the way and comes back: right today, anything tomorrow
// CAUGHT BY: undefined
#include <cmath>

extern "C" void kernel(const float* x, float* out) {
  int step = 2147483647 - 255;
  for (int r = 0; r < 64; r++) {
    const float* row = x + r * 256;
    float m = row[0], s = 0.0f;
    for (int c = 1; c < 256; c++) m = row[c] > m ? row[c] : m;
    for (int c = 0; c < 256; c++) s += std::exp(row[c] - m);
    for (int c = 0; c < 256; c++) {
      volatile int far = step + c;
      far = far + r;
      out[r * 256 + c] = std::exp(row[c] - m) / s;
    }
  }
}
