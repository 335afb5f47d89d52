// TRICK: takes the first row's mask for all rows
// CAUGHT BY: accuracy | non-finite
// PROBLEM: masked_softmax
#include <cmath>
extern "C" void kernel(const float* x, const bool* mask, float* out) {
  for (int r = 0; r < 64; ++r) {
    float a[256], m = -INFINITY, s = 0;
    for (int i = 0; i < 256; ++i) a[i] = mask[i] ? -INFINITY : x[r * 256 + i];
    for (int i = 0; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += a[i] = std::exp(a[i] - m);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = a[i] / s;
  }
}
