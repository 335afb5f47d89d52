// float16 and bfloat16 as CUDA has them: every operation in float, then rounded to nearest even.
//
// That is right for + - * / and sqrt, since float has more than twice their digits; a fused multiply-add is made in
// double. Functions such as hexp are as near as half precision can be, which a device promises too.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "vectors.hpp"

namespace kernelwright_emulation {

inline float half_to_float(uint16_t bits) {
  _Float16 h;
  std::memcpy(&h, &bits, 2);
  return float(h);
}
inline uint16_t float_to_half(float x) {
  const _Float16 h = _Float16(x);
  uint16_t bits;
  std::memcpy(&bits, &h, 2);
  return bits;
}
inline float bfloat_to_float(uint16_t bits) {
  const uint32_t wide = uint32_t(bits) << 16;
  float x;
  std::memcpy(&x, &wide, 4);
  return x;
}
inline uint16_t float_to_bfloat(float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  if (x != x) return 0x7fff;
  return uint16_t((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

}  // namespace kernelwright_emulation

#define KWE_HALF(type, pair, read, write)                                                                            \
  struct __attribute__((aligned(2))) type {                                                                         \
    uint16_t bits;                                                                                                  \
    type() = default;                                                                                               \
    type(float x) : bits(kernelwright_emulation::write(x)) {}                                                       \
    type(double x) : type(float(x)) {}                                                                              \
    type(int x) : type(float(x)) {}                                                                                 \
    type(unsigned x) : type(float(x)) {}                                                                            \
    type(long x) : type(float(x)) {}                                                                                \
    type(long long x) : type(float(x)) {}                                                                           \
    type(unsigned long x) : type(float(x)) {}                                                                       \
    type(unsigned long long x) : type(float(x)) {}                                                                  \
    operator float() const { return kernelwright_emulation::read(bits); }                                           \
  };                                                                                                                \
  struct alignas(4) pair {                                                                                          \
    type x, y;                                                                                                      \
    pair() = default;                                                                                               \
    pair(type x, type y) : x(x), y(y) {}                                                                            \
  };                                                                                                                \
  inline type operator+(type a, type b) { return float(a) + float(b); }                                             \
  inline type operator-(type a, type b) { return float(a) - float(b); }                                             \
  inline type operator*(type a, type b) { return float(a) * float(b); }                                             \
  inline type operator/(type a, type b) { return float(a) / float(b); }                                             \
  inline type operator-(type a) { return -float(a); }                                                               \
  inline type& operator+=(type& a, type b) { return a = a + b; }                                                    \
  inline type& operator-=(type& a, type b) { return a = a - b; }                                                    \
  inline type& operator*=(type& a, type b) { return a = a * b; }                                                    \
  inline type& operator/=(type& a, type b) { return a = a / b; }                                                    \
  inline bool operator<(type a, type b) { return float(a) < float(b); }                                             \
  inline bool operator>(type a, type b) { return float(a) > float(b); }                                             \
  inline bool operator<=(type a, type b) { return float(a) <= float(b); }                                           \
  inline bool operator>=(type a, type b) { return float(a) >= float(b); }                                           \
  inline bool operator==(type a, type b) { return float(a) == float(b); }                                           \
  inline bool operator!=(type a, type b) { return float(a) != float(b); }                                           \
  inline type __hadd(type a, type b) { return a + b; }                                                              \
  inline type __hsub(type a, type b) { return a - b; }                                                              \
  inline type __hmul(type a, type b) { return a * b; }                                                              \
  inline type __hdiv(type a, type b) { return a / b; }                                                              \
  inline type __hneg(type a) { return -a; }                                                                         \
  inline type __habs(type a) { return std::fabs(float(a)); }                                                        \
  inline type __hfma(type a, type b, type c) { return float(double(float(a)) * double(float(b)) + double(float(c))); } \
  inline type __hmax(type a, type b) { return std::fmax(float(a), float(b)); }                                      \
  inline type __hmin(type a, type b) { return std::fmin(float(a), float(b)); }                                      \
  inline type __hmax_nan(type a, type b) { return a != a || b != b ? type(NAN) : __hmax(a, b); }                    \
  inline type __hmin_nan(type a, type b) { return a != a || b != b ? type(NAN) : __hmin(a, b); }                    \
  inline bool __heq(type a, type b) { return a == b; }                                                              \
  inline bool __hne(type a, type b) { return a != b; }                                                              \
  inline bool __hlt(type a, type b) { return a < b; }                                                               \
  inline bool __hle(type a, type b) { return a <= b; }                                                              \
  inline bool __hgt(type a, type b) { return a > b; }                                                               \
  inline bool __hge(type a, type b) { return a >= b; }                                                              \
  inline bool __hisnan(type a) { return a != a; }                                                                   \
  inline int __hisinf(type a) { return std::isinf(float(a)) ? (float(a) < 0 ? -1 : 1) : 0; }                        \
  inline type hexp(type a) { return std::exp(float(a)); }                                                           \
  inline type hexp2(type a) { return std::exp2(float(a)); }                                                         \
  inline type hlog(type a) { return std::log(float(a)); }                                                           \
  inline type hlog2(type a) { return std::log2(float(a)); }                                                         \
  inline type hsqrt(type a) { return std::sqrt(float(a)); }                                                         \
  inline type hrsqrt(type a) { return 1.0f / std::sqrt(float(a)); }                                                 \
  inline type hrcp(type a) { return 1.0f / float(a); }                                                              \
  inline type hsin(type a) { return std::sin(float(a)); }                                                           \
  inline type hcos(type a) { return std::cos(float(a)); }                                                           \
  inline type htanh(type a) { return std::tanh(float(a)); }                                                         \
  inline type hfloor(type a) { return std::floor(float(a)); }                                                       \
  inline type hceil(type a) { return std::ceil(float(a)); }                                                         \
  inline type htrunc(type a) { return std::trunc(float(a)); }                                                       \
  inline type hrint(type a) { return std::rint(float(a)); }                                                         \
  inline pair __hadd2(pair a, pair b) { return {a.x + b.x, a.y + b.y}; }                                            \
  inline pair __hsub2(pair a, pair b) { return {a.x - b.x, a.y - b.y}; }                                            \
  inline pair __hmul2(pair a, pair b) { return {a.x * b.x, a.y * b.y}; }                                            \
  inline pair __h2div(pair a, pair b) { return {a.x / b.x, a.y / b.y}; }                                            \
  inline pair __hneg2(pair a) { return {-a.x, -a.y}; }                                                              \
  inline pair __habs2(pair a) { return {__habs(a.x), __habs(a.y)}; }                                                \
  inline pair __hfma2(pair a, pair b, pair c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }            \
  inline pair __hmax2(pair a, pair b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }                              \
  inline pair __hmin2(pair a, pair b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }                              \
  inline pair h2exp(pair a) { return {hexp(a.x), hexp(a.y)}; }                                                      \
  inline pair h2rsqrt(pair a) { return {hrsqrt(a.x), hrsqrt(a.y)}; }                                                \
  inline pair h2sqrt(pair a) { return {hsqrt(a.x), hsqrt(a.y)}; }                                                   \
  inline pair operator+(pair a, pair b) { return __hadd2(a, b); }                                                   \
  inline pair operator-(pair a, pair b) { return __hsub2(a, b); }                                                   \
  inline pair operator*(pair a, pair b) { return __hmul2(a, b); }                                                   \
  inline pair operator/(pair a, pair b) { return __h2div(a, b); }                                                   \
  inline pair& operator+=(pair& a, pair b) { return a = a + b; }
KWE_HALF(__half, __half2, half_to_float, float_to_half)
KWE_HALF(__nv_bfloat16, __nv_bfloat162, bfloat_to_float, float_to_bfloat)
#undef KWE_HALF

using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
using __half_raw = ushort1;

inline float __half2float(__half a) { return float(a); }
inline __half __float2half(float x) { return x; }
inline __half __float2half_rn(float x) { return x; }
inline __half __double2half(double x) {
  const _Float16 h = _Float16(x);
  __half a;
  std::memcpy(&a.bits, &h, 2);
  return a;
}
inline __half __int2half_rn(int x) { return float(x); }
inline int __half2int_rn(__half a) { return int(std::rint(float(a))); }
inline int __half2int_rz(__half a) { return int(float(a)); }
inline unsigned short __half_as_ushort(__half a) { return a.bits; }
inline __half __ushort_as_half(unsigned short bits) {
  __half a;
  a.bits = bits;
  return a;
}
inline __half2 __halves2half2(__half a, __half b) { return {a, b}; }
inline __half2 make_half2(__half a, __half b) { return {a, b}; }
inline __half2 __half2half2(__half a) { return {a, a}; }
inline __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
inline __half2 __float22half2_rn(float2 v) { return {__half(v.x), __half(v.y)}; }
inline float2 __half22float2(__half2 a) { return {float(a.x), float(a.y)}; }
inline __half __low2half(__half2 a) { return a.x; }
inline __half __high2half(__half2 a) { return a.y; }
inline float __low2float(__half2 a) { return a.x; }
inline float __high2float(__half2 a) { return a.y; }
inline __half2 __lowhigh2highlow(__half2 a) { return {a.y, a.x}; }

inline float __bfloat162float(__nv_bfloat16 a) { return float(a); }
inline __nv_bfloat16 __float2bfloat16(float x) { return x; }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return x; }
inline __nv_bfloat16 __double2bfloat16(double x) { return float(x); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 a) { return a.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __nv_bfloat16 a;
  a.bits = bits;
  return a;
}
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return {a, a}; }
inline __nv_bfloat162 __float2bfloat162_rn(float x) { return {__nv_bfloat16(x), __nv_bfloat16(x)}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {__nv_bfloat16(v.x), __nv_bfloat16(v.y)}; }
inline float2 __bfloat1622float2(__nv_bfloat162 a) { return {float(a.x), float(a.y)}; }
inline float __low2float(__nv_bfloat162 a) { return a.x; }
inline float __high2float(__nv_bfloat162 a) { return a.y; }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
