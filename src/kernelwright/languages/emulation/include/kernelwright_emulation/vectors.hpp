// CUDA's vector types, with their alignment: an access to one that is not aligned is a fault (-fsanitize=alignment).
#pragma once
#include <cstddef>
#include <cstdint>

#define KWE_VECTOR(name, element, align1, align2, align4)                                                            \
  struct alignas(align1) name##1 { element x; };                                                                    \
  struct alignas(align2) name##2 { element x, y; };                                                                 \
  struct name##3 { element x, y, z; };                                                                              \
  struct alignas(align4) name##4 { element x, y, z, w; };                                                           \
  inline name##1 make_##name##1(element x) { return {x}; }                                                          \
  inline name##2 make_##name##2(element x, element y) { return {x, y}; }                                            \
  inline name##3 make_##name##3(element x, element y, element z) { return {x, y, z}; }                              \
  inline name##4 make_##name##4(element x, element y, element z, element w) { return {x, y, z, w}; }
KWE_VECTOR(char, signed char, 1, 2, 4)
KWE_VECTOR(uchar, unsigned char, 1, 2, 4)
KWE_VECTOR(short, short, 2, 4, 8)
KWE_VECTOR(ushort, unsigned short, 2, 4, 8)
KWE_VECTOR(int, int, 4, 8, 16)
KWE_VECTOR(uint, unsigned, 4, 8, 16)
KWE_VECTOR(long, long, 8, 16, 16)
KWE_VECTOR(ulong, unsigned long, 8, 16, 16)
KWE_VECTOR(longlong, long long, 8, 16, 16)
KWE_VECTOR(ulonglong, unsigned long long, 8, 16, 16)
KWE_VECTOR(float, float, 4, 8, 16)
KWE_VECTOR(double, double, 8, 16, 16)
#undef KWE_VECTOR

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
