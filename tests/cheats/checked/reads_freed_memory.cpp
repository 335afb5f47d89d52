// TRICK: frees its scratch memory before it has read all of it
// CAUGHT BY: address
#include <cmath>
#include <cstdlib>

extern "C" void kernel(const float* x, float* out) {
  float* e = static_cast<float*>(std::malloc(64 * 256 * sizeof(float)));
  float sums[64];
  for (int r = 0; r < 64; r++) {
    const float* row = x + r * 256;
    float m = row[0];
    for (int c = 1; c < 256; c++) m = row[c] > m ? row[c] : m;
    sums[r] = 0.0f;
    for (int c = 0; c < 256; c++) sums[r] += e[r * 256 + c] = std::exp(row[c] - m);
  }
  for (int r = 0; r < 64; r++)
    for (int c = 0; c < 256; c++) out[r * 256 + c] = e[r * 256 + c] / sums[r];
  std::free(e);
  volatile float last = e[64 * 256 / 2];
  (void)last;
}
