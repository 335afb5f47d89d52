// What generated CUDA kernels use: vectors of a thread, arithmetic as PyTorch does it, folds over a group of threads.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace kw {

using i64 = long long;

// ---------------------------------------------------------------------------------------------------------- vectors

template <class T, int V>
struct alignas(sizeof(T) * V) vec {
  T at[V];
  __device__ __forceinline__ T& operator[](int i) { return at[i]; }
  __device__ __forceinline__ const T& operator[](int i) const { return at[i]; }
};

template <int V, class T>
__device__ __forceinline__ vec<T, V> load(const T* from) {
  return *reinterpret_cast<const vec<T, V>*>(from);
}

template <int V, class T>
__device__ __forceinline__ void store(T* to, const vec<T, V>& values) {
  *reinterpret_cast<vec<T, V>*>(to) = values;
}

// ------------------------------------------------------------------------------------------------------ conversions

__device__ __forceinline__ float value(float x) { return x; }
__device__ __forceinline__ double value(double x) { return x; }
__device__ __forceinline__ float value(__half x) { return __half2float(x); }
__device__ __forceinline__ float value(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ i64 value(i64 x) { return x; }
__device__ __forceinline__ int value(int x) { return x; }
__device__ __forceinline__ int value(short x) { return x; }
__device__ __forceinline__ int value(signed char x) { return x; }
__device__ __forceinline__ int value(unsigned char x) { return x; }
__device__ __forceinline__ bool value(bool x) { return x; }

template <class To, class From>
struct as {
  __device__ __forceinline__ static To of(From x) { return static_cast<To>(x); }
};
template <class From>
struct as<__half, From> {
  __device__ __forceinline__ static __half of(From x) { return __float2half_rn(static_cast<float>(x)); }
};
template <class From>
struct as<__nv_bfloat16, From> {
  __device__ __forceinline__ static __nv_bfloat16 of(From x) { return __float2bfloat16_rn(static_cast<float>(x)); }
};
template <class To, class From>
__device__ __forceinline__ To to(From x) {
  return as<To, From>::of(x);
}

// ------------------------------------------------------------------------------------------------------- arithmetic

__device__ __forceinline__ float inf() { return __int_as_float(0x7f800000); }
__device__ __forceinline__ float nan() { return __int_as_float(0x7fc00000); }

// A NaN is larger than everything and smaller than everything: it stays.
template <class T>
__device__ __forceinline__ T maximum(T a, T b) { return (a > b || a != a) ? a : b; }
template <class T>
__device__ __forceinline__ T minimum(T a, T b) { return (a < b || a != a) ? a : b; }
// For a maximum that is only subtracted before an exponential, which brings a NaN back.
__device__ __forceinline__ float max_second(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double max_second(double a, double b) { return fmax(a, b); }

#define KW_UNARY(name, single, twofold)                                   \
  __device__ __forceinline__ float name(float x) { return single(x); }    \
  __device__ __forceinline__ double name(double x) { return twofold(x); }
#ifdef KW_FAST  // an instruction and a product each; wrong by more the farther x is from 0, or the nearer to 1 (log)
KW_UNARY(exp, __expf, ::exp) KW_UNARY(log, __logf, ::log) KW_UNARY(log2, __log2f, ::log2)
#else
KW_UNARY(exp, expf, ::exp) KW_UNARY(log, logf, ::log) KW_UNARY(log2, log2f, ::log2)
#endif
KW_UNARY(expm1, expm1f, ::expm1) KW_UNARY(exp2, exp2f, ::exp2) KW_UNARY(log1p, log1pf, ::log1p)
KW_UNARY(log10, log10f, ::log10) KW_UNARY(tanh, tanhf, ::tanh) KW_UNARY(erf, erff, ::erf)
KW_UNARY(erfc, erfcf, ::erfc) KW_UNARY(sin, sinf, ::sin) KW_UNARY(cos, cosf, ::cos)
KW_UNARY(tan, tanf, ::tan) KW_UNARY(asin, asinf, ::asin) KW_UNARY(acos, acosf, ::acos)
KW_UNARY(atan, atanf, ::atan) KW_UNARY(sinh, sinhf, ::sinh) KW_UNARY(cosh, coshf, ::cosh)
KW_UNARY(sqrt, sqrtf, ::sqrt) KW_UNARY(rsqrt, rsqrtf, ::rsqrt) KW_UNARY(floor, floorf, ::floor)
KW_UNARY(ceil, ceilf, ::ceil) KW_UNARY(trunc, truncf, ::trunc) KW_UNARY(round_even, rintf, ::rint)
#undef KW_UNARY

template <class T>
__device__ __forceinline__ T reciprocal(T x) { return T(1) / x; }
template <class T>
__device__ __forceinline__ T sigmoid(T x) { return T(1) / (T(1) + exp(-x)); }
// Two units in the last place off at most, as Triton's; what it makes zero would be subnormal (CUDA's guide, __fdividef).
__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + exp(-x)); }
__device__ __forceinline__ float abs(float x) { return fabsf(x); }
__device__ __forceinline__ double abs(double x) { return fabs(x); }
__device__ __forceinline__ int abs(int x) { return x < 0 ? -x : x; }
__device__ __forceinline__ i64 abs(i64 x) { return x < 0 ? -x : x; }
template <class T>
__device__ __forceinline__ T sign(T x) { return x != x ? T(0) : T((T(0) < x) - (x < T(0))); }
__device__ __forceinline__ float pow(float a, float b) { return powf(a, b); }
__device__ __forceinline__ double pow(double a, double b) { return ::pow(a, b); }
__device__ __forceinline__ float atan2(float a, float b) { return atan2f(a, b); }
__device__ __forceinline__ double atan2(double a, double b) { return ::atan2(a, b); }
__device__ __forceinline__ float fmod(float a, float b) { return fmodf(a, b); }
__device__ __forceinline__ double fmod(double a, double b) { return ::fmod(a, b); }
template <class T>
__device__ __forceinline__ T floor_div(T a, T b) {
  const T q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
// Kept from being fused into a neighbouring sum.
__device__ __forceinline__ float rounded(float x) { return __fadd_rn(x, 0.0f); }
__device__ __forceinline__ double rounded(double x) { return __dadd_rn(x, 0.0); }

// ------------------------------------------------------------------------------------------------------------ folds

struct Sum {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const { return a + b; }
};
struct Product {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const { return a * b; }
};
struct Max {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const { return maximum(a, b); }
};
struct Min {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const { return minimum(a, b); }
};
struct MaxOfExp {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const { return max_second(a, b); }
};
struct Any {
  __device__ __forceinline__ bool operator()(bool a, bool b) const { return a || b; }
};
struct All {
  __device__ __forceinline__ bool operator()(bool a, bool b) const { return a && b; }
};

// A value and where it stands; of equals the first, and the first NaN before all.
template <class T>
struct place {
  T value;
  int where;
};
template <class T>
__device__ __forceinline__ bool same(T a, T b) { return a == b || (a != a && b != b); }
struct First {
  template <class T>
  __device__ __forceinline__ static place<T> pick(place<T> a, place<T> b, bool better) {
    const bool tie = same(a.value, b.value);
    return (tie ? b.where < a.where : better) ? b : a;
  }
};
struct ArgMax {
  template <class T>
  __device__ __forceinline__ place<T> operator()(place<T> a, place<T> b) const {
    return First::pick(a, b, b.value > a.value || b.value != b.value);
  }
};
struct ArgMin {
  template <class T>
  __device__ __forceinline__ place<T> operator()(place<T> a, place<T> b) const {
    return First::pick(a, b, b.value < a.value || b.value != b.value);
  }
};

template <class T>
__device__ __forceinline__ T from_lane(T x, int offset) { return __shfl_xor_sync(0xffffffffu, x, offset); }
__device__ __forceinline__ bool from_lane(bool x, int offset) {
  return __shfl_xor_sync(0xffffffffu, static_cast<int>(x), offset) != 0;
}
template <class T>
__device__ __forceinline__ place<T> from_lane(place<T> x, int offset) {
  return {from_lane(x.value, offset), from_lane(x.where, offset)};
}

// The fold over G neighbouring threads, known to all of them. G is a power of two; above 32 it is the whole block.
template <int G, class Join, class T>
__device__ __forceinline__ T fold(T x, Join join) {
#pragma unroll
  for (int offset = (G < 32 ? G : 32) / 2; offset > 0; offset /= 2) x = join(x, from_lane(x, offset));
  if constexpr (G > 32) {
    __shared__ T parts[G / 32];
    __syncthreads();  // those of the fold before have been read
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[0];
#pragma unroll
    for (int i = 1; i < G / 32; ++i) x = join(x, parts[i]);
  }
  return x;
}

// The fold over the Y threads of one column, in a block of X columns by Y rows; V values each.
template <int X, int Y, int V, class Join, class T>
__device__ __forceinline__ void fold_columns(T (&x)[V], Join join) {
  if constexpr (Y > 1) {
    __shared__ T parts[Y][V][X];
    const int column = threadIdx.x % X, row = threadIdx.x / X;
    __syncthreads();
#pragma unroll
    for (int v = 0; v < V; ++v) parts[row][v][column] = x[v];
    __syncthreads();
#pragma unroll
    for (int v = 0; v < V; ++v) {
      x[v] = parts[0][v][column];
      for (int y = 1; y < Y; ++y) x[v] = join(x[v], parts[y][v][column]);
    }
  }
}

// The fold over the threads before this one in its group of G, starting with `carry`; carry becomes the whole.
template <int G, class Join, class T>
__device__ __forceinline__ T scan(T x, T& carry, Join join) {
  const int lane = threadIdx.x % (G < 32 ? G : 32);
  T all = x;
#pragma unroll
  for (int offset = 1; offset < (G < 32 ? G : 32); offset *= 2) {
    const T other = __shfl_up_sync(0xffffffffu, all, offset, G < 32 ? G : 32);
    if (lane >= offset) all = join(other, all);
  }
  T before = __shfl_up_sync(0xffffffffu, all, 1, G < 32 ? G : 32);
  bool first = lane == 0;
  T whole = __shfl_sync(0xffffffffu, all, (G < 32 ? G : 32) - 1, G < 32 ? G : 32);
  T start = carry;
  if constexpr (G > 32) {
    __shared__ T parts[G / 32];
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = whole;
    __syncthreads();
    for (int i = 0; i < static_cast<int>(threadIdx.x) / 32; ++i) start = join(start, parts[i]);
    whole = parts[0];
    for (int i = 1; i < G / 32; ++i) whole = join(whole, parts[i]);
  }
  carry = join(carry, whole);
  return first ? start : join(start, before);
}

}  // namespace kw
