// WHY: no division: a guess from the bits and four Newton steps, which is as exact as float32 can be
#include <cmath>
#include <cstdint>
#include <cstring>
static float reciprocal(float s) {
  uint32_t u;
  std::memcpy(&u, &s, 4);
  u = 0x7ef311c3u - u;
  float y;
  std::memcpy(&y, &u, 4);
  for (int step = 0; step < 4; ++step) y = std::fma(y, std::fma(-s, y, 1.0f), y);
  return y;
}
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float* o = out + r * 256;
    float m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += o[i] = std::exp(a[i] - m);
    const float y = reciprocal(s);
    for (int i = 0; i < 256; ++i) o[i] *= y;
  }
}
