// Device mathematics under CUDA's names. What a device computes roughly (__expf, __fdividef) is computed well here:
// the emulation can pass a kernel whose fast functions are too rough on a device.
#pragma once
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

template <class A, class B>
constexpr std::common_type_t<A, B> kernelwright_larger(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return T(a) != T(a) ? T(b) : T(b) != T(b) || T(a) > T(b) ? T(a) : T(b);
  return T(a) < T(b) ? T(b) : T(a);
}
template <class A, class B>
constexpr std::common_type_t<A, B> kernelwright_smaller(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return T(a) != T(a) ? T(b) : T(b) != T(b) || T(a) < T(b) ? T(a) : T(b);
  return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B, class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
constexpr auto max(A a, B b) { return kernelwright_larger(a, b); }
template <class A, class B, class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
constexpr auto min(A a, B b) { return kernelwright_smaller(a, b); }
inline unsigned umax(unsigned a, unsigned b) { return a < b ? b : a; }
inline unsigned umin(unsigned a, unsigned b) { return b < a ? b : a; }

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float rcbrtf(float x) { return 1.0f / std::cbrt(x); }
inline float exp10f(float x) { return float(std::pow(10.0, double(x))); }
inline float sinpif(float x) { return float(std::sin(M_PI * double(x))); }
inline float cospif(float x) { return float(std::cos(M_PI * double(x))); }
inline float normcdff(float x) { return float(0.5 * std::erfc(-double(x) * M_SQRT1_2)); }
inline float erfcxf(float x) { return float(std::exp(double(x) * double(x)) * std::erfc(double(x))); }
inline float norm3df(float a, float b, float c) { return std::sqrt(a * a + b * b + c * c); }
inline float fdividef(float a, float b) { return a / b; }
using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;

inline float __expf(float x) { return std::exp(x); }
inline float __exp10f(float x) { return exp10f(x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __log10f(float x) { return std::log10(x); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __tanf(float x) { return std::tan(x); }
inline float __tanhf(float x) { return std::tanh(x); }
inline float __powf(float a, float b) { return std::pow(a, b); }
inline float __fdividef(float a, float b) { return a / b; }
inline void __sincosf(float x, float* sine, float* cosine) { *sine = std::sin(x), *cosine = std::cos(x); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

// Rounded once, and kept from being fused into a neighbour.
#define KWE_ROUNDED(name, T, expression)       \
  inline T name(T a, T b) {                    \
    volatile T result = expression;            \
    return result;                             \
  }
KWE_ROUNDED(__fadd_rn, float, a + b) KWE_ROUNDED(__fsub_rn, float, a - b) KWE_ROUNDED(__fmul_rn, float, a * b)
KWE_ROUNDED(__fdiv_rn, float, a / b) KWE_ROUNDED(__dadd_rn, double, a + b) KWE_ROUNDED(__dsub_rn, double, a - b)
KWE_ROUNDED(__dmul_rn, double, a * b) KWE_ROUNDED(__ddiv_rn, double, a / b)
#undef KWE_ROUNDED
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __frsqrt_rn(float x) { return float(1.0 / std::sqrt(double(x))); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline double __dsqrt_rn(double x) { return std::sqrt(x); }
inline double __drcp_rn(double x) { return 1.0 / x; }

template <class To, class From>
inline To kernelwright_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "of one size");
  To y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}
inline float __int_as_float(int x) { return kernelwright_bits<float>(x); }
inline int __float_as_int(float x) { return kernelwright_bits<int>(x); }
inline float __uint_as_float(unsigned x) { return kernelwright_bits<float>(x); }
inline unsigned __float_as_uint(float x) { return kernelwright_bits<unsigned>(x); }
inline double __longlong_as_double(long long x) { return kernelwright_bits<double>(x); }
inline long long __double_as_longlong(double x) { return kernelwright_bits<long long>(x); }

// Conversions to whole numbers saturate, and NaN becomes zero.
template <class To, class From>
inline To kernelwright_whole(From x) {
  if (x != x) return 0;
  constexpr double low = double(std::is_signed_v<To> ? (sizeof(To) == 4 ? INT_MIN : LLONG_MIN) : 0);
  constexpr double high = sizeof(To) == 4 ? (std::is_signed_v<To> ? 2147483648.0 : 4294967296.0)
                                          : (std::is_signed_v<To> ? 9223372036854775808.0 : 18446744073709551616.0);
  if (double(x) >= high) return std::is_signed_v<To> ? To(sizeof(To) == 4 ? INT_MAX : LLONG_MAX) : To(~To(0));
  return double(x) <= low ? To(std::is_signed_v<To> ? (sizeof(To) == 4 ? INT_MIN : LLONG_MIN) : 0) : To(x);
}
#define KWE_CONVERT(from, From, to, To)                                                                      \
  inline To __##from##2##to##_rn(From x) { return kernelwright_whole<To>(std::rint(x)); }                     \
  inline To __##from##2##to##_rz(From x) { return kernelwright_whole<To>(std::trunc(x)); }                    \
  inline To __##from##2##to##_rd(From x) { return kernelwright_whole<To>(std::floor(x)); }                    \
  inline To __##from##2##to##_ru(From x) { return kernelwright_whole<To>(std::ceil(x)); }
KWE_CONVERT(float, float, int, int) KWE_CONVERT(float, float, uint, unsigned) KWE_CONVERT(float, float, ll, long long)
KWE_CONVERT(float, float, ull, unsigned long long) KWE_CONVERT(double, double, int, int)
KWE_CONVERT(double, double, uint, unsigned) KWE_CONVERT(double, double, ll, long long)
#undef KWE_CONVERT
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __ll2float_rn(long long x) { return float(x); }
inline double __int2double_rn(int x) { return double(x); }
inline float __double2float_rn(double x) { return float(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; ++i) y |= (x >> i & 1u) << (31 - i);
  return y;
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned select) {
  const unsigned long long both = (unsigned long long)y << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) result |= unsigned(both >> (select >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return result;
}
inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return unsigned((((unsigned long long)high << 32 | low) << (by & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return unsigned(((unsigned long long)high << 32 | low) >> (by & 31));
}
inline unsigned __sad(int a, int b, unsigned c) { return unsigned(a > b ? a - b : b - a) + c; }
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += int((signed char)(a >> 8 * i)) * int((signed char)(b >> 8 * i));
  return c;
}
