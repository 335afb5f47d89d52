// What NVRTC lacks of <float.h>, <limits.h> and <limits>.
#pragma once
#include "kernelwright_integers.h"
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MIN (-2147483647 - 1)
#define INT_MAX 2147483647
#define UINT_MAX 4294967295U
#define LONG_MIN (-9223372036854775807L - 1)
#define LONG_MAX 9223372036854775807L
#define ULONG_MAX 18446744073709551615UL
#define LLONG_MIN (-9223372036854775807LL - 1)
#define LLONG_MAX 9223372036854775807LL
#define ULLONG_MAX 18446744073709551615ULL
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_MIN_EXP (-125)
#define FLT_MAX_EXP 128
#define FLT_EPSILON 1.19209290e-07F
#define FLT_MIN 1.17549435e-38F
#define FLT_MAX 3.40282347e+38F
#define FLT_TRUE_MIN 1.40129846e-45F
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_MIN_EXP (-1021)
#define DBL_MAX_EXP 1024
#define DBL_EPSILON 2.2204460492503131e-16
#define DBL_MIN 2.2250738585072014e-308
#define DBL_MAX 1.7976931348623157e+308
#define DBL_TRUE_MIN 4.9406564584124654e-324
namespace std {
template <class T> struct numeric_limits { static constexpr bool is_specialized = false; };
#define KERNELWRIGHT_INTEGER(T, LOW, HIGH, DIGITS, SIGNED)                                                   \
  template <> struct numeric_limits<T> {                                                                     \
    static constexpr bool is_specialized = true, is_integer = true, is_signed = SIGNED, is_exact = true;     \
    static constexpr bool has_infinity = false, has_quiet_NaN = false;                                       \
    static constexpr int digits = DIGITS, radix = 2;                                                         \
    __host__ __device__ static constexpr T min() noexcept { return LOW; }                                    \
    __host__ __device__ static constexpr T lowest() noexcept { return LOW; }                                 \
    __host__ __device__ static constexpr T max() noexcept { return HIGH; }                                   \
  }
KERNELWRIGHT_INTEGER(bool, false, true, 1, false);
KERNELWRIGHT_INTEGER(char, SCHAR_MIN, SCHAR_MAX, 7, true);
KERNELWRIGHT_INTEGER(signed char, SCHAR_MIN, SCHAR_MAX, 7, true);
KERNELWRIGHT_INTEGER(unsigned char, 0, UCHAR_MAX, 8, false);
KERNELWRIGHT_INTEGER(short, SHRT_MIN, SHRT_MAX, 15, true);
KERNELWRIGHT_INTEGER(unsigned short, 0, USHRT_MAX, 16, false);
KERNELWRIGHT_INTEGER(int, INT_MIN, INT_MAX, 31, true);
KERNELWRIGHT_INTEGER(unsigned int, 0, UINT_MAX, 32, false);
KERNELWRIGHT_INTEGER(long, LONG_MIN, LONG_MAX, 63, true);
KERNELWRIGHT_INTEGER(unsigned long, 0, ULONG_MAX, 64, false);
KERNELWRIGHT_INTEGER(long long, LLONG_MIN, LLONG_MAX, 63, true);
KERNELWRIGHT_INTEGER(unsigned long long, 0, ULLONG_MAX, 64, false);
#undef KERNELWRIGHT_INTEGER
#define KERNELWRIGHT_REAL(T, LEAST, MOST, STEP, DENORM, INF, NOT, DIGITS)                                    \
  template <> struct numeric_limits<T> {                                                                     \
    static constexpr bool is_specialized = true, is_integer = false, is_signed = true, is_exact = false;     \
    static constexpr bool has_infinity = true, has_quiet_NaN = true;                                         \
    static constexpr int digits = DIGITS, radix = 2;                                                         \
    __host__ __device__ static constexpr T min() noexcept { return LEAST; }                                  \
    __host__ __device__ static constexpr T lowest() noexcept { return -MOST; }                               \
    __host__ __device__ static constexpr T max() noexcept { return MOST; }                                   \
    __host__ __device__ static constexpr T epsilon() noexcept { return STEP; }                               \
    __host__ __device__ static constexpr T denorm_min() noexcept { return DENORM; }                          \
    __host__ __device__ static constexpr T infinity() noexcept { return INF; }                               \
    __host__ __device__ static constexpr T quiet_NaN() noexcept { return NOT; }                              \
  }
KERNELWRIGHT_REAL(float, FLT_MIN, FLT_MAX, FLT_EPSILON, FLT_TRUE_MIN, __builtin_bit_cast(float, 0x7f800000), __builtin_bit_cast(float, 0x7fc00000), 24);
KERNELWRIGHT_REAL(double, DBL_MIN, DBL_MAX, DBL_EPSILON, DBL_TRUE_MIN, __builtin_bit_cast(double, 0x7ff0000000000000), __builtin_bit_cast(double, 0x7ff8000000000000), 53);
#undef KERNELWRIGHT_REAL
}
