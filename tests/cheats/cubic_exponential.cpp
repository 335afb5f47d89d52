// TRICK: an exponential by a cubic polynomial, right to 14 bits
// CAUGHT BY: accuracy
#include <cmath>
#include <cstdint>
#include <cstring>
static float exponential(float v) {
  if (!(v > -87)) return std::isnan(v) ? v : 0;
  const float n = std::nearbyint(v * 1.44269504f), r = (v * 1.44269504f - n) * 0.693147181f;
  const int32_t bits = (int32_t(n) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, 4);
  return power * (1 + r * (1 + r * (0.5f + r * (1.0f / 6))));
}
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float *o = out + r * 256, m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += o[i] = exponential(a[i] - m);
    for (int i = 0; i < 256; ++i) o[i] /= s;
  }
}
