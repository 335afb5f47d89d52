// WHY: an exponential of its own without branches, about 2 units in the last place
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
static inline float exponential(float v) {
  const float held = v < -87.0f ? -87.0f : v;  // NaN stays
  const float n = std::nearbyint(held * 1.44269504f);
  float r = std::fma(n, -0.693145752f, held);
  r = std::fma(n, -1.42860677e-6f, r);
  float p = 1.0f / 5040;
  for (float c : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) p = std::fma(p, r, c);
  const int32_t bits = (static_cast<int32_t>(n == n ? n : 0.0f) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, 4);
  return v < -87.0f ? 0.0f : p * power;
}
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float* o = out + r * 256;
    float m = a[0], lanes[16] = {}, s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) o[i] = exponential(a[i] - m);
    for (int i = 0; i < 256; ++i) lanes[i % 16] += o[i];
    for (float lane : lanes) s += lane;
    for (int i = 0; i < 256; ++i) o[i] *= 1 / s;
  }
}
