// TRICK: leaves out weight and bias, which start as ones and zeros
// CAUGHT BY: accuracy
// PROBLEM: layernorm
#include <cmath>
extern "C" void kernel(const float* x, const float*, const float*, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    double s = 0, q = 0;
    for (int i = 0; i < 256; ++i) s += a[i];
    s /= 256;
    for (int i = 0; i < 256; ++i) q += (a[i] - s) * (a[i] - s);
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = float((a[i] - s) / std::sqrt(q / 256 + 1e-5));
  }
}
