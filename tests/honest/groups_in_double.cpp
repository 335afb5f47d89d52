// WHY: sums of squares in double, one pass, channels interleaved
// PROBLEM: groupnorm
#include <cmath>
extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
  for (int g = 15; g >= 0; --g) {
    const float* a = x + g * 256;
    double s = 0, q = 0;
    for (int i = 0; i < 64; ++i)
      for (int c = 0; c < 4; ++c) {
        s += a[c * 64 + i];
        q += double(a[c * 64 + i]) * a[c * 64 + i];
      }
    s /= 256;
    const double scale = 1 / std::sqrt(q / 256 - s * s + 1e-5);
    for (int i = 0; i < 256; ++i)
      out[g * 256 + i] = float((a[i] - s) * scale * weight[g % 4 * 4 + i / 64] + bias[g % 4 * 4 + i / 64]);
  }
}
