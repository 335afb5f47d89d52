// TRICK: multiplies in bfloat16, as tensor units do
// CAUGHT BY: accuracy
// PROBLEM: matmul
#include <cstdint>
#include <cstring>
static float bf16(float v) {
  uint32_t u;
  std::memcpy(&u, &v, 4);
  u = (u + 0x7fffu + (u >> 16 & 1)) & 0xffff0000u;
  std::memcpy(&v, &u, 4);
  return v;
}
extern "C" void kernel(const float* a, const float* b, float* out) {
  for (int i = 0; i < 48; ++i)
    for (int j = 0; j < 40; ++j) {
      float s = 0;
      for (int k = 0; k < 64; ++k) s += bf16(a[i * 64 + k]) * bf16(b[k * 40 + j]);
      out[i * 40 + j] = s;
    }
}
