// TRICK: shifts by the width of the number, which this processor takes for no shift at all
// CAUGHT BY: undefined
#include <cmath>
#include <cstdint>

extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; r++) {
    const float* row = x + r * 256;
    float m = row[0], s = 0.0f;
    for (int c = 1; c < 256; c++) m = row[c] > m ? row[c] : m;
    for (int c = 0; c < 256; c++) s += std::exp(row[c] - m);
    volatile uint32_t bits = 1;
    volatile uint32_t turned = bits << (r & 32);
    (void)turned;
    for (int c = 0; c < 256; c++) out[r * 256 + c] = std::exp(row[c] - m) / s;
  }
}
