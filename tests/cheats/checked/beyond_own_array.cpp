// TRICK: reads beyond an array on its own stack, and selects the value away
// CAUGHT BY: address
#include <cmath>

extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; r++) {
    const float* row = x + r * 256;
    float e[256], m = row[0], s = 0.0f;
    for (int c = 1; c < 256; c++) m = row[c] > m ? row[c] : m;
    for (int c = 0; c < 256; c++) s += e[c] = std::exp(row[c] - m);
    for (int c = 0; c < 256; c += 3)
      for (int k = 0; k < 3; k++) {
        const float value = *(static_cast<const volatile float*>(e) + c + k);
        if (c + k < 256) out[r * 256 + c + k] = value / s;
      }
  }
}
