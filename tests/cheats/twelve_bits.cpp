// TRICK: rounds the answers to twelve bits, which 1e-3 would accept
// CAUGHT BY: accuracy
#include <cmath>
#include <cstdint>
#include <cstring>
static float rounded(float v) {
  uint32_t u;
  std::memcpy(&u, &v, 4);
  u = (u + 0x800u) & 0xfffff000u;
  std::memcpy(&v, &u, 4);
  return v;
}
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float *o = out + r * 256, m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += o[i] = std::exp(a[i] - m);
    for (int i = 0; i < 256; ++i) o[i] = rounded(o[i] / s);
  }
}
