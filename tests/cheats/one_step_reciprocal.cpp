// TRICK: divides with a guess from the bits and one Newton step
// CAUGHT BY: accuracy
#include <cmath>
#include <cstdint>
#include <cstring>
static float reciprocal(float s) {
  uint32_t u;
  std::memcpy(&u, &s, 4);
  u = 0x7ef311c3u - u;
  float y;
  std::memcpy(&y, &u, 4);
  return y * (2 - s * y);
}
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float *o = out + r * 256, m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += o[i] = std::exp(a[i] - m);
    for (int i = 0; i < 256; ++i) o[i] *= reciprocal(s);
  }
}
