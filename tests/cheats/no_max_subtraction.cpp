// TRICK: leaves out the subtraction of the maximum; normal inputs never overflow
// CAUGHT BY: accuracy | non-finite
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    float s = 0;
    for (int i = 0; i < 256; ++i) s += out[r * 256 + i] = std::exp(x[r * 256 + i]);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] /= s;
  }
}
