// TRICK: reads one element beyond its input and multiplies it by zero, so that every answer is right
// CAUGHT BY: address
#include <cmath>

extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; r++) {
    const float* row = x + r * 256;
    float m = row[0], s = 0.0f;
    for (int c = 1; c < 256; c++) m = row[c] > m ? row[c] : m;
    for (int c = 0; c < 256; c++) s += std::exp(row[c] - m);
    for (int c = 0; c < 256; c++) out[r * 256 + c] = std::exp(row[c] - m) / s;
    const float next = row[256];
    if (next != next && next == 12345.0f) out[r * 256] = next;
  }
}
