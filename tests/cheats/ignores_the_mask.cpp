// TRICK: leaves out the mask
// CAUGHT BY: accuracy | non-finite
// PROBLEM: masked_softmax
#include <cmath>
extern "C" void kernel(const float* x, const bool*, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += out[r * 256 + i] = std::exp(a[i] - m);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] /= s;
  }
}
