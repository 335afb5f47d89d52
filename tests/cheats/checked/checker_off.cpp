// TRICK: reads beyond its input in a function for which it switches the checker off
// CAUGHT BY: address
#include <cmath>

__attribute__((no_sanitize("address"), noinline)) static float after(const float* row) { return row[256]; }

extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; r++) {
    const float* row = x + r * 256;
    float m = row[0], s = 0.0f;
    for (int c = 1; c < 256; c++) m = row[c] > m ? row[c] : m;
    for (int c = 0; c < 256; c++) s += std::exp(row[c] - m);
    for (int c = 0; c < 256; c++) out[r * 256 + c] = std::exp(row[c] - m) / s;
    volatile float next = after(row);
    (void)next;
  }
}
