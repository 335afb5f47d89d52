// WHY: powers of two instead of e, with the rounding of the product put back by an FMA
#include <cmath>
static float exponential(float v) {
  if (v < -104) return 0;
  const float high = v * 1.44269504f, low = std::fma(v, 1.44269504f, -high) + v * 1.92596303e-8f;
  return std::exp2(high) * (1 + low * 0.693147181f);
}
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float* o = out + r * 256;
    float m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += o[i] = exponential(a[i] - m);
    for (int i = 0; i < 256; ++i) o[i] /= s;
  }
}
