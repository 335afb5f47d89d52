// TRICK: rounds to TF32 where only one number comes out: rounding averages out over random inputs
// CAUGHT BY: accuracy
// PROBLEM: mse
#include <cstdint>
#include <cstring>
// Keeps eleven significant bits, as a conversion to TF32 does.
static float coarse(float v) {
  uint32_t u;
  std::memcpy(&u, &v, 4);
  u = (u + 0x1000u) & 0xffffe000u;
  std::memcpy(&v, &u, 4);
  return v;
}
extern "C" void kernel(const float* x, const float* y, float* out) {
  double s = 0;
  for (int i = 0; i < 64 * 256; ++i) {
    const float d = coarse(x[i]) - coarse(y[i]);
    s += d * d;
  }
  *out = float(s / (64 * 256));
}
