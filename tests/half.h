// Conversions between float and the bits of float16 and bfloat16, rounding to nearest, ties to even.
#include <cstdint>
#include <cstring>
static inline uint32_t bits_of(float v) {
  uint32_t u;
  std::memcpy(&u, &v, 4);
  return u;
}
static inline float from_bits(uint32_t u) {
  float v;
  std::memcpy(&v, &u, 4);
  return v;
}
static inline float wide16(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16, rest = h & 0x7fffu;
  if (rest >= 0x7c00) return from_bits(sign | 0x7f800000u | (rest & 0x3ff) << 13);
  return from_bits(sign | rest << 13) * 0x1p112f;
}
static inline uint16_t narrow16(float v) {
  const uint32_t u = bits_of(v), sign = u >> 16 & 0x8000u, rest = u & 0x7fffffffu;
  if (rest > 0x7f800000u) return uint16_t(sign | 0x7e00u);
  if (rest >= 0x477ff000u) return uint16_t(sign | 0x7c00u);
  if (rest < 0x38800000u) return uint16_t(sign | (bits_of(from_bits(rest) + 0.5f) - 0x3f000000u));  // subnormal
  return uint16_t(sign | (rest - 0x38000000u + 0xfff + (rest >> 13 & 1)) >> 13);
}
static inline float wide_b(uint16_t b) { return from_bits(uint32_t(b) << 16); }
static inline uint16_t narrow_b(float v) {
  const uint32_t u = bits_of(v);
  if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
  return uint16_t((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
