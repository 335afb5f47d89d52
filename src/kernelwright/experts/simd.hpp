// Vectors of N numbers on the compiler's vector extensions, and the arithmetic that generated kernels use.
//
// Everything is branch-free over lanes and follows PyTorch where IEEE 754 leaves a choice (maximum and minimum
// propagate NaN, round is half-to-even). Functions take any vector type `vec<T, N>`; scalars are not accepted.
// Float math is within 2.5 units in the last place (tests/experts/test_simd.py measures each function); double math
// calls libm for each lane. Not here: threads, memory, anything that allocates.
//
// Compile with -ffp-contract=fast: a * b + c is meant to become one fused multiply-add.
#pragma once
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define KW_GCC_X86 1
#else
#define KW_GCC_X86 0
#endif
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define KW_FUSED true  // the reduction of sine and cosine stands on it
#else
#define KW_FUSED false
#endif
#define KW_INLINE inline __attribute__((always_inline))
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC diagnostic ignored "-Wignored-attributes"
#endif

namespace kw {

// ------------------------------------------------------------------------------------------------ types

template <class T, int N> struct vec_of { typedef T type __attribute__((vector_size(N * sizeof(T)))); };
template <class T, int N> using vec = typename vec_of<T, N>::type;

template <class T> struct bare { typedef T type; };
template <class T> struct bare<T&> { typedef T type; };
template <class T> struct bare<const T&> { typedef T type; };
template <class V> struct traits {
    typedef typename bare<decltype(V()[0])>::type element;
    static constexpr int lanes = sizeof(V) / sizeof(element);
};
template <class V> using element = typename traits<V>::element;
template <class V> constexpr int lanes = traits<V>::lanes;

template <int BYTES> struct integer_of;
template <> struct integer_of<1> { typedef int8_t sint; typedef uint8_t uint; };
template <> struct integer_of<2> { typedef int16_t sint; typedef uint16_t uint; };
template <> struct integer_of<4> { typedef int32_t sint; typedef uint32_t uint; };
template <> struct integer_of<8> { typedef int64_t sint; typedef uint64_t uint; };
template <class V> using signed_of = vec<typename integer_of<sizeof(element<V>)>::sint, lanes<V>>;
template <class V> using unsigned_of = vec<typename integer_of<sizeof(element<V>)>::uint, lanes<V>>;

template <class T, class U> struct same { static constexpr bool value = false; };
template <class T> struct same<T, T> { static constexpr bool value = true; };

// Booleans in registers: all bits set for true, always 32 bits a lane, whatever was compared.
template <int N> using mask = vec<int32_t, N>;

// ---------------------------------------------------------------------------------------- bits and lanes

template <class To, class From> KW_INLINE To bitcast(From x) {
    static_assert(sizeof(To) == sizeof(From), "bitcast keeps the size");
    To y;
    __builtin_memcpy(&y, &x, sizeof(To));
    return y;
}

template <class V> KW_INLINE V broadcast(element<V> x) { return x - V{}; }

// 0, 1, 2 ... in each lane.
template <class V> KW_INLINE V iota() {
    V v = {};
    for (int i = 0; i < lanes<V>; ++i) v[i] = element<V>(i);
    return v;
}

// Value conversion lane by lane, with C++'s rules (float to int truncates).
template <class T, class V> KW_INLINE vec<T, lanes<V>> convert(V x) {
    if constexpr (same<T, element<V>>::value) return x;
    else return __builtin_convertvector(x, vec<T, lanes<V>>);
}

// Any comparison's result as a mask.
template <class M> KW_INLINE mask<lanes<M>> to_mask(M m) { return convert<int32_t>(m); }

template <class V> KW_INLINE V select(mask<lanes<V>> m, V a, V b) {
    return convert<typename integer_of<sizeof(element<V>)>::sint>(m) ? a : b;
}

template <class V> KW_INLINE bool any(V m) {
    int32_t r = 0;
    for (int i = 0; i < lanes<V>; ++i) r |= int32_t(m[i]);
    return r != 0;
}

template <int N> KW_INLINE mask<N> first(int n) { return iota<mask<N>>() < n; }

// ------------------------------------------------------------------------------------------------ memory

template <class T, int N> KW_INLINE vec<T, N> load(const T* p) {
    vec<T, N> v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
}
template <class T, int N> KW_INLINE vec<T, N> load_aligned(const T* p) {
    return load<T, N>(static_cast<const T*>(__builtin_assume_aligned(p, sizeof(vec<T, N>))));
}
template <class V> KW_INLINE void store(element<V>* p, V v) { __builtin_memcpy(p, &v, sizeof(v)); }
template <class V> KW_INLINE void store_aligned(element<V>* p, V v) {
    store(static_cast<element<V>*>(__builtin_assume_aligned(p, sizeof(V))), v);
}

// The first n elements; the other lanes hold `fill`. Nothing beyond p[n - 1] is touched.
template <class T, int N> KW_INLINE vec<T, N> load_part(const T* p, int n, T fill) {
    typedef vec<T, N> V;
    if (n >= N) return load<T, N>(p);
    V v = broadcast<V>(fill);
#if KW_GCC_X86 && defined(__AVX512F__)
    if constexpr (N == 16 && sizeof(T) == 4)
        return bitcast<V>(__builtin_ia32_loadups512_mask(reinterpret_cast<const float*>(p),
                                                         bitcast<vec<float, 16>>(v), (1u << n) - 1));
    else if constexpr (N == 8 && sizeof(T) == 8)
        return bitcast<V>(__builtin_ia32_loadupd512_mask(reinterpret_cast<const double*>(p),
                                                         bitcast<vec<double, 8>>(v), (1u << n) - 1));
    else
#endif
#if KW_GCC_X86 && defined(__AVX512VL__)
    if constexpr (N == 8 && sizeof(T) == 4)
        return bitcast<V>(__builtin_ia32_loadups256_mask(reinterpret_cast<const float*>(p),
                                                         bitcast<vec<float, 8>>(v), (1u << n) - 1));
    else
#endif
    {
        T t[N];
        __builtin_memcpy(t, &v, sizeof(v));
        for (int i = 0; i < n; ++i) t[i] = p[i];
        return load<T, N>(t);
    }
}

template <class V> KW_INLINE void store_part(element<V>* p, V v, int n) {
    constexpr int N = lanes<V>;
    if (n >= N) return store(p, v);
#if KW_GCC_X86 && defined(__AVX512F__)
    if constexpr (N == 16 && sizeof(element<V>) == 4)
        __builtin_ia32_storeups512_mask(reinterpret_cast<float*>(p), bitcast<vec<float, 16>>(v), (1u << n) - 1);
    else if constexpr (N == 8 && sizeof(element<V>) == 8)
        __builtin_ia32_storeupd512_mask(reinterpret_cast<double*>(p), bitcast<vec<double, 8>>(v), (1u << n) - 1);
    else
#endif
#if KW_GCC_X86 && defined(__AVX512VL__)
    if constexpr (N == 8 && sizeof(element<V>) == 4)
        __builtin_ia32_storeups256_mask(reinterpret_cast<float*>(p), bitcast<vec<float, 8>>(v), (1u << n) - 1);
    else
#endif
        for (int i = 0; i < n; ++i) p[i] = v[i];
}

// A store past the caches, for outputs that will not be read soon. p must be aligned to the vector's size where
// that is 16, 32 or 64 bytes; elsewhere this is a plain store. Call stream_fence() before other threads read it.
template <class V> KW_INLINE void stream(element<V>* p, V v) {
#if KW_GCC_X86 && defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) return __builtin_ia32_movntps512(reinterpret_cast<float*>(p), bitcast<vec<float, 16>>(v));
#endif
#if KW_GCC_X86 && defined(__AVX__)
    if constexpr (sizeof(V) == 32) return __builtin_ia32_movntps256(reinterpret_cast<float*>(p), bitcast<vec<float, 8>>(v));
#endif
#if KW_GCC_X86
    if constexpr (sizeof(V) == 16) return __builtin_ia32_movntps(reinterpret_cast<float*>(p), bitcast<vec<float, 4>>(v));
#endif
    store(p, v);
}
KW_INLINE void stream_fence() {
#if KW_GCC_X86
    __builtin_ia32_sfence();
#endif
}

// p[i[0]], p[i[1]] ...: single loads, which are as quick as gather instructions on the processors at hand.
template <class T, class I> KW_INLINE vec<T, lanes<I>> gather(const T* p, I i) {
    vec<T, lanes<I>> v = {};
    for (int k = 0; k < lanes<I>; ++k) v[k] = p[i[k]];
    return v;
}

// p[0], p[stride], p[2 * stride] ... n of them; the other lanes hold `fill`.
template <class T, int N> KW_INLINE vec<T, N> load_strided(const T* p, int64_t stride, int n, T fill) {
    vec<T, N> v = broadcast<vec<T, N>>(fill);
    if (n >= N)
        for (int k = 0; k < N; ++k) v[k] = p[k * stride];
    else
        for (int k = 0; k < n; ++k) v[k] = p[k * stride];
    return v;
}

// --------------------------------------------------------------------------------------- half precisions

template <class V> KW_INLINE vec<float, lanes<V>> from_bf16(V x) {
    return bitcast<vec<float, lanes<V>>>(convert<uint32_t>(x) << 16);
}
// Rounds to nearest even; NaN stays NaN.
template <class V> KW_INLINE vec<uint16_t, lanes<V>> to_bf16(V x) {
    typedef vec<uint32_t, lanes<V>> U;
    U u = bitcast<U>(x);
    U r = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    return convert<uint16_t>(x != x ? (u >> 16) | 0x40 : r);
}
template <class V> KW_INLINE vec<float, lanes<V>> from_fp16(V x) {
    typedef vec<uint32_t, lanes<V>> U;
    typedef vec<float, lanes<V>> F;
#if KW_GCC_X86 && defined(__AVX512F__)
    if constexpr (lanes<V> == 16)
        return __builtin_ia32_vcvtph2ps512_mask(bitcast<vec<int16_t, 16>>(x), F{}, -1, 4);
    else
#endif
#if KW_GCC_X86 && defined(__F16C__)
    if constexpr (lanes<V> == 8) return __builtin_ia32_vcvtph2ps256(bitcast<vec<int16_t, 8>>(x));
    else
#endif
    {
        U h = convert<uint32_t>(x), low = (h & 0x7fff) << 13;
        F scaled = bitcast<F>(low) * 0x1p112f;  // also makes normal numbers of subnormal ones
        U bits = low >= 0x0f800000u ? low | 0x7f800000u : bitcast<U>(scaled);
        return bitcast<F>(bits | (h & 0x8000) << 16);
    }
}
template <class V> KW_INLINE vec<uint16_t, lanes<V>> to_fp16(V x) {
    typedef vec<uint32_t, lanes<V>> U;
    typedef vec<uint16_t, lanes<V>> H;
#if KW_GCC_X86 && defined(__AVX512F__)
    if constexpr (lanes<V> == 16)
        return bitcast<H>(__builtin_ia32_vcvtps2ph512_mask(x, 0, vec<int16_t, 16>{}, -1));
    else
#endif
    {
        U u = bitcast<U>(x), sign = u & 0x80000000u;
        u ^= sign;
        U small = bitcast<U>(bitcast<V>(u) + 0.5f) - 0x3f000000u;           // the addition rounds subnormals
        U normal = (u + 0xc8000fffu + ((u >> 13) & 1)) >> 13;               // 0xc8000fff: bias 15 - 127, plus half
        U large = u > 0x7f800000u ? U{} + 0x7e00u : U{} + 0x7c00u;
        U r = u >= 0x47800000u ? large : (u < 0x38800000u ? small : normal);
        return convert<uint16_t>(r | (sign >> 16));
    }
}

// ------------------------------------------------------------------------------------ simple arithmetic

// a * b + c, fused where the processor can, whatever the compiler's settings.
template <class V> KW_INLINE V fma(V a, V b, V c) {
#if KW_GCC_X86 && defined(__AVX512F__)
    if constexpr (same<V, vec<float, 16>>::value) return __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4);
    else
#endif
#if KW_GCC_X86 && defined(__FMA__)
    if constexpr (same<V, vec<float, 8>>::value) return __builtin_ia32_vfmaddps256(a, b, c);
    else if constexpr (same<V, vec<float, 4>>::value) return __builtin_ia32_vfmaddps(a, b, c);
    else
#endif
        return a * b + c;
}

// x86's own: the second operand where either is NaN.
template <class V> KW_INLINE V max_second(V a, V b) {
#if KW_GCC_X86 && defined(__AVX512F__)
    if constexpr (same<V, vec<float, 16>>::value) return __builtin_ia32_maxps512_mask(a, b, a, -1, 4);
    else
#endif
#if KW_GCC_X86 && defined(__AVX__)
    if constexpr (same<V, vec<float, 8>>::value) return __builtin_ia32_maxps256(a, b);
    else
#endif
        return a > b ? a : b;
}
template <class V> KW_INLINE V min_second(V a, V b) {
#if KW_GCC_X86 && defined(__AVX512F__)
    if constexpr (same<V, vec<float, 16>>::value) return __builtin_ia32_minps512_mask(a, b, a, -1, 4);
    else
#endif
#if KW_GCC_X86 && defined(__AVX__)
    if constexpr (same<V, vec<float, 8>>::value) return __builtin_ia32_minps256(a, b);
    else
#endif
        return a < b ? a : b;
}

// Larger and smaller; NaN where either is NaN.
template <class V> KW_INLINE V maximum(V a, V b) {
    if constexpr (element<V>(0.5) != element<V>(0)) return a != a ? a : max_second(a, b);
    else return a > b ? a : b;
}
template <class V> KW_INLINE V minimum(V a, V b) {
    if constexpr (element<V>(0.5) != element<V>(0)) return a != a ? a : min_second(a, b);
    else return a < b ? a : b;
}

template <class V> KW_INLINE V abs(V x) {
    if constexpr (element<V>(0.5) != element<V>(0))
        return bitcast<V>(bitcast<unsigned_of<V>>(x) << 1 >> 1);
    else return x < 0 ? -x : x;
}
template <class V> KW_INLINE V copysign(V x, V sign) {
    typedef unsigned_of<V> U;
    constexpr element<U> top = element<U>(1) << (8 * sizeof(element<U>) - 1);
    return bitcast<V>((bitcast<U>(x) & ~top) | (bitcast<U>(sign) & top));
}
// -1, 0, 1; 0 for NaN, as torch.sign gives.
template <class V> KW_INLINE V sign(V x) {
    V one = broadcast<V>(1), zero = {};
    return x > 0 ? one : (x < 0 ? -one : zero);
}
template <class V> KW_INLINE V reciprocal(V x) { return 1 / x; }

#define KW_EACH_LANE(name, scalar_float, scalar_double)                       \
    template <class V> KW_INLINE V name(V x) {                                \
        V r = {};                                                             \
        for (int i = 0; i < lanes<V>; ++i) {                                  \
            if constexpr (sizeof(element<V>) == 4) r[i] = scalar_float(x[i]); \
            else r[i] = scalar_double(x[i]);                                  \
        }                                                                     \
        return r;                                                             \
    }
KW_EACH_LANE(sqrt_lanes, __builtin_sqrtf, __builtin_sqrt)
KW_EACH_LANE(floor_lanes, __builtin_floorf, __builtin_floor)
KW_EACH_LANE(rint_lanes, __builtin_rintf, __builtin_rint)
KW_EACH_LANE(tan, __builtin_tanf, __builtin_tan)
KW_EACH_LANE(asin, __builtin_asinf, __builtin_asin)
KW_EACH_LANE(acos, __builtin_acosf, __builtin_acos)
KW_EACH_LANE(atan, __builtin_atanf, __builtin_atan)
KW_EACH_LANE(sinh, __builtin_sinhf, __builtin_sinh)
KW_EACH_LANE(cosh, __builtin_coshf, __builtin_cosh)
KW_EACH_LANE(exp2, __builtin_exp2f, __builtin_exp2)
KW_EACH_LANE(log2, __builtin_log2f, __builtin_log2)
KW_EACH_LANE(log10, __builtin_log10f, __builtin_log10)
KW_EACH_LANE(erfc, __builtin_erfcf, __builtin_erfc)
KW_EACH_LANE(exp_lanes, __builtin_expf, __builtin_exp)
KW_EACH_LANE(expm1_lanes, __builtin_expm1f, __builtin_expm1)
KW_EACH_LANE(log_lanes, __builtin_logf, __builtin_log)
KW_EACH_LANE(log1p_lanes, __builtin_log1pf, __builtin_log1p)
KW_EACH_LANE(tanh_lanes, __builtin_tanhf, __builtin_tanh)
KW_EACH_LANE(erf_lanes, __builtin_erff, __builtin_erf)
KW_EACH_LANE(sin_lanes, __builtin_sinf, __builtin_sin)
KW_EACH_LANE(cos_lanes, __builtin_cosf, __builtin_cos)
#undef KW_EACH_LANE

#define KW_EACH_PAIR(name, scalar_float, scalar_double)                             \
    template <class V> KW_INLINE V name(V x, V y) {                                 \
        V r = {};                                                                   \
        for (int i = 0; i < lanes<V>; ++i) {                                        \
            if constexpr (sizeof(element<V>) == 4) r[i] = scalar_float(x[i], y[i]); \
            else r[i] = scalar_double(x[i], y[i]);                                  \
        }                                                                           \
        return r;                                                                   \
    }
KW_EACH_PAIR(pow, __builtin_powf, __builtin_pow)
KW_EACH_PAIR(atan2, __builtin_atan2f, __builtin_atan2)
KW_EACH_PAIR(fmod, __builtin_fmodf, __builtin_fmod)
#undef KW_EACH_PAIR

template <class V> KW_INLINE V sqrt(V x) {
#if KW_GCC_X86 && defined(__AVX512F__)
    if constexpr (same<V, vec<float, 16>>::value) return __builtin_ia32_sqrtps512_mask(x, x, -1, 4);
    else if constexpr (same<V, vec<double, 8>>::value) return __builtin_ia32_sqrtpd512_mask(x, x, -1, 4);
    else
#endif
#if KW_GCC_X86 && defined(__AVX__)
    if constexpr (same<V, vec<float, 8>>::value) return __builtin_ia32_sqrtps256(x);
    else
#endif
        return sqrt_lanes(x);
}
template <class V> KW_INLINE V rsqrt(V x) { return 1 / sqrt(x); }

// Half-to-even; keeps the sign of zero, NaN, infinities and what is already whole.
template <class V> KW_INLINE V round_even(V x) {
    if constexpr (sizeof(element<V>) == 4) {
        V a = abs(x), r = (a + 0x1p23f) - 0x1p23f;
        return copysign(a < 0x1p23f ? r : a, x);
    } else {
        V a = abs(x), r = (a + 0x1p52) - 0x1p52;
        return copysign(a < 0x1p52 ? r : a, x);
    }
}
template <class V> KW_INLINE V floor(V x) {
    V r = round_even(x);
    V one = broadcast<V>(1), zero = {};
    return copysign(r - (r > x ? one : zero), x);
}
template <class V> KW_INLINE V ceil(V x) { return -floor(-x); }
template <class V> KW_INLINE V trunc(V x) { return copysign(floor(abs(x)), x); }

// ------------------------------------------------------------------------------------------ float math

// x times 2^n, n a whole number in [-300, 300]; rounds once, also into the subnormals.
template <class V> KW_INLINE V scale(V x, V n) {
#if KW_GCC_X86 && defined(__AVX512F__)
    if constexpr (same<V, vec<float, 16>>::value) return __builtin_ia32_scalefps512_mask(x, n, x, -1, 4);
    else
#endif
    {
        typedef signed_of<V> I;
        I whole = convert<int32_t>(n), half = whole >> 1;
        return x * bitcast<V>((half + 127) << 23) * bitcast<V>((whole - half + 127) << 23);
    }
}

// x = n ln 2 + r with |r| <= ln 2 / 2 and n whole, for |x| < 200.
template <class V> struct reduced { V n, r; };
template <class V> KW_INLINE reduced<V> reduce_ln2(V x) {
    V n = x * 1.44269504f + 0x1.8p23f;  // adding 1.5 * 2^23 leaves the rounded whole number in the low bits
    n = n - 0x1.8p23f;
    V r = n * -0x1.62e4p-1f + x;  // ln 2 in two parts; the first is short, so that n times it is exact
    return {n, fma(n, broadcast<V>(-0x1.7f7d1cp-20f), r)};
}

// Within 1 unit in the last place.
template <class V> KW_INLINE V exp(V x) {
    if constexpr (sizeof(element<V>) == 8) return exp_lanes(x);
    else {
        // Outside these the answer is 0 or infinity; max_second keeps a NaN in its second operand.
        x = min_second(broadcast<V>(89.0f), max_second(broadcast<V>(-104.0f), x));
        reduced<V> s = reduce_ln2(x);
        V r = s.r, p = broadcast<V>(0x1.6850e4p-10f);
        p = p * r + 0x1.123bccp-7f;
        p = p * r + 0x1.555b98p-5f;
        p = p * r + 0x1.55548ep-3f;
        p = p * r + 0x1.fffff8p-2f;
        p = p * r + 1.0f;
        p = p * r + 1.0f;
        return scale(p, s.n);
    }
}

template <class V> KW_INLINE V expm1(V x) {
    if constexpr (sizeof(element<V>) == 8) return expm1_lanes(x);
    else {
        V c = min_second(broadcast<V>(89.0f), max_second(broadcast<V>(-40.0f), x));
        reduced<V> s = reduce_ln2(c);
        V r = s.r, p = broadcast<V>(0x1.a01a02p-13f * 1.0f);
        p = p * r + 0x1.6c16c2p-10f;
        p = p * r + 0x1.111112p-7f;
        p = p * r + 0x1.555556p-5f;
        p = p * r + 0x1.555556p-3f;
        p = p * r + 0.5f;
        p = p * (r * r) + r;
        V one = broadcast<V>(1.0f);
        V half = scale(one, s.n - 1.0f);  // 2^(n - 1): 2^n itself overflows one step too early
        V y = 2.0f * (half * p + (half - 0.5f));
        V tiny = abs(x);
        return tiny < 0x1p-13f ? x * x * 0.5f + x : y;
    }
}

// log of a normal or subnormal positive number, no special values.
template <class V> KW_INLINE V log_positive(V x) {
    typedef signed_of<V> I;
    V zero = {};
    auto tiny = x < 0x1p-126f;
    x = tiny ? x * 0x1p32f : x;
    I bits = bitcast<I>(x) - 0x3f3504f3;  // sqrt(1/2): the mantissa lands in [sqrt(1/2), sqrt(2))
    V e = convert<float>(bits >> 23) - (tiny ? zero + 32.0f : zero);
    V f = bitcast<V>((bits & 0x7fffff) + 0x3f3504f3) - 1.0f;
    V z = f * f, p = broadcast<V>(7.0376836292e-2f);
    p = p * f + -1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f + -1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f + -1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f + -2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    p = p * f * z + e * -2.12194440e-4f;
    p = z * -0.5f + p;
    return e * 0.693359375f + (f + p);
}

template <class V> KW_INLINE V log(V x) {
    if constexpr (sizeof(element<V>) == 8) return log_lanes(x);
    else {
        V y = log_positive(x), zero = {}, infinity = zero + __builtin_inff();
        y = x == infinity ? x : y;
        y = x == 0.0f ? -infinity : y;
        return (x < 0.0f) | (x != x) ? zero + __builtin_nanf("") : y;
    }
}

template <class V> KW_INLINE V log1p(V x) {
    if constexpr (sizeof(element<V>) == 8) return log1p_lanes(x);
    else {
        V u = 1.0f + x, zero = {}, infinity = zero + __builtin_inff();
        V lost = (x - (u - 1.0f)) / u;  // what the addition rounded away, to first order
        V y = log_positive(u) + lost;
        y = x == infinity ? x : y;
        y = x == -1.0f ? -infinity : y;
        y = abs(x) < 0x1p-24f ? x : y;
        return (x < -1.0f) | (x != x) ? zero + __builtin_nanf("") : y;
    }
}

template <class V> KW_INLINE V tanh(V x) {
    if constexpr (sizeof(element<V>) == 8) return tanh_lanes(x);
    else {
        V a = abs(x), z = x * x;
        V s = broadcast<V>(-5.70498872745e-3f);
        s = s * z + 2.06390887954e-2f;
        s = s * z + -5.37397155531e-2f;
        s = s * z + 1.33314422036e-1f;
        s = s * z + -3.33332819422e-1f;
        s = s * z * x + x;
        V e = exp(min_second(broadcast<V>(20.0f), a + a));
        V y = copysign(1.0f - 2.0f / (e + 1.0f), x);
        y = a < 0.625f ? s : y;
        return x != x ? x : y;
    }
}

template <class V> KW_INLINE V sigmoid(V x) { return 1 / (1 + exp(-x)); }

// After N. Juffa's published erff (two polynomials, one through exp).
template <class V> KW_INLINE V erf(V x) {
    if constexpr (sizeof(element<V>) == 8) return erf_lanes(x);
    else {
        V t = min_second(broadcast<V>(4.0f), abs(x)), s = t * t;
        V p = t * -1.72853470e-5f + 3.83197126e-4f;
        V q = t * -3.88396438e-3f + 2.42546219e-2f;
        p = p * s + q;
        p = p * t + -1.06777877e-1f;
        p = p * t + -6.34846687e-1f;
        p = p * t + -1.28717512e-1f;
        p = p * t + -t;
        V large = copysign(1.0f - exp(p), x);
        V r = broadcast<V>(-5.96761703e-4f);
        r = r * s + 4.99119423e-3f;
        r = r * s + -2.67681349e-2f;
        r = r * s + 1.12819925e-1f;
        r = r * s + -3.76125336e-1f;
        r = r * s + 1.28379166e-1f;
        r = r * x + x;
        return t > 0.927734375f ? large : r;
    }
}

// sin (shift = 0) or cos (shift = 1) for |x| <= 30000: three-part reduction by pi / 2.
template <class V> KW_INLINE V sine_shifted(V x, int shift) {
    typedef signed_of<V> I;
    V n = round_even(x * 0.636619772f);
    V r = fma(n, broadcast<V>(-0x1.921fb4p+0f), x);
    r = fma(n, broadcast<V>(-0x1.4442d0p-24f), r);
    r = fma(n, broadcast<V>(-0x1.846988p-48f), r);
    I q = convert<int32_t>(n) + shift;
    V z = r * r;
    V s = broadcast<V>(2.86567956e-6f);
    s = s * z + -1.98559923e-4f;
    s = s * z + 8.33338592e-3f;
    s = s * z + -1.66666672e-1f;
    s = s * (z * r) + r;
    V c = broadcast<V>(2.44677067e-5f);
    c = c * z + -1.38877297e-3f;
    c = c * z + 4.16666567e-2f;
    c = c * z + -0.5f;
    c = c * z + 1.0f;
    V y = (q & 1) != 0 ? c : s;
    return bitcast<V>(bitcast<I>(y) ^ ((q & 2) << 30));
}
template <class V> KW_INLINE V sin(V x) {
    if constexpr (sizeof(element<V>) == 8) return sin_lanes(x);
    else {
        if (!KW_FUSED || __builtin_expect(any(~(abs(x) <= 30000.0f)), 0)) return sin_lanes(x);
        V y = sine_shifted(x, 0);
        return x == 0.0f ? x : y;
    }
}
template <class V> KW_INLINE V cos(V x) {
    if constexpr (sizeof(element<V>) == 8) return cos_lanes(x);
    else {
        if (!KW_FUSED || __builtin_expect(any(~(abs(x) <= 30000.0f)), 0)) return cos_lanes(x);
        return sine_shifted(x, 1);
    }
}

// ------------------------------------------------------------------------------------- across the lanes

template <class V> struct halves { vec<element<V>, lanes<V> / 2> low, high; };

template <class V> KW_INLINE element<V> sum(V v) {
    if constexpr (lanes<V> == 1) return v[0];
    else {
        halves<V> h = bitcast<halves<V>>(v);
        return sum(h.low + h.high);
    }
}
template <class V> KW_INLINE element<V> product(V v) {
    if constexpr (lanes<V> == 1) return v[0];
    else {
        halves<V> h = bitcast<halves<V>>(v);
        return product(h.low * h.high);
    }
}
// NaN where any lane is NaN.
template <class V> KW_INLINE element<V> largest(V v) {
    if constexpr (lanes<V> == 1) return v[0];
    else {
        halves<V> h = bitcast<halves<V>>(v);
        return largest(maximum(h.low, h.high));
    }
}
template <class V> KW_INLINE element<V> smallest(V v) {
    if constexpr (lanes<V> == 1) return v[0];
    else {
        halves<V> h = bitcast<halves<V>>(v);
        return smallest(minimum(h.low, h.high));
    }
}

// Where the largest (smallest) value is, from each lane's own best value and its place: the first of equal ones,
// and the first NaN before everything else, as torch.argmax and argmin do.
template <class V> KW_INLINE int32_t place_of(V best, mask<lanes<V>> place, element<V> winner) {
    V w = broadcast<V>(winner);
    mask<lanes<V>> hit = to_mask((best == w) | ((best != best) & (w != w)));
    return smallest(select(hit, place, broadcast<mask<lanes<V>>>(0x7fffffff)));
}
template <class V> KW_INLINE int32_t place_of_largest(V best, mask<lanes<V>> place) {
    return place_of(best, place, largest(best));
}
template <class V> KW_INLINE int32_t place_of_smallest(V best, mask<lanes<V>> place) {
    return place_of(best, place, smallest(best));
}
// Takes (x, at) over where x is better: greater (smaller), or the first NaN. Of equal values the earlier stays.
template <class V> KW_INLINE void take_larger(V& best, mask<lanes<V>>& place, V x, mask<lanes<V>> at) {
    mask<lanes<V>> better = to_mask((x > best) | ((x != x) & (best == best)));
    best = select(better, x, best);
    place = select(better, at, place);
}
template <class V> KW_INLINE void take_smaller(V& best, mask<lanes<V>>& place, V x, mask<lanes<V>> at) {
    mask<lanes<V>> better = to_mask((x < best) | ((x != x) & (best == best)));
    best = select(better, x, best);
    place = select(better, at, place);
}
// The same between two lots of lanes, where either place may be the earlier.
template <class V> KW_INLINE void merge_larger(V& best, mask<lanes<V>>& place, V x, mask<lanes<V>> at) {
    auto even = (x == best) | ((x != x) & (best != best));
    mask<lanes<V>> better = to_mask((x > best) | ((x != x) & (best == best))) | (to_mask(even) & (at < place));
    best = select(better, x, best);
    place = select(better, at, place);
}
template <class V> KW_INLINE void merge_smaller(V& best, mask<lanes<V>>& place, V x, mask<lanes<V>> at) {
    auto even = (x == best) | ((x != x) & (best != best));
    mask<lanes<V>> better = to_mask((x < best) | ((x != x) & (best == best))) | (to_mask(even) & (at < place));
    best = select(better, x, best);
    place = select(better, at, place);
}

// Lane i takes lane i - BY; the first BY lanes take `fill`.
template <int BY, class V> KW_INLINE V shifted(V x, element<V> fill) {
    constexpr int N = lanes<V>;
    signed_of<V> from = iota<signed_of<V>>() + (N - BY);
    V f = broadcast<V>(fill);
#ifdef __clang__
    V r = f;
    for (int i = BY; i < N; ++i) r[i] = x[i - BY];
    return r;
#else
    return __builtin_shuffle(f, x, from);
#endif
}
template <class V> KW_INLINE V prefix_sums(V x) {
    if constexpr (lanes<V> > 1) x += shifted<1>(x, 0);
    if constexpr (lanes<V> > 2) x += shifted<2>(x, 0);
    if constexpr (lanes<V> > 4) x += shifted<4>(x, 0);
    if constexpr (lanes<V> > 8) x += shifted<8>(x, 0);
    return x;
}
template <class V> KW_INLINE V prefix_products(V x) {
    if constexpr (lanes<V> > 1) x *= shifted<1>(x, 1);
    if constexpr (lanes<V> > 2) x *= shifted<2>(x, 1);
    if constexpr (lanes<V> > 4) x *= shifted<4>(x, 1);
    if constexpr (lanes<V> > 8) x *= shifted<8>(x, 1);
    return x;
}
// Running sums (products) within a vector, continued from `carry` and carried on. Floats run in double, as torch's do.
template <class V, class C> KW_INLINE V running_sum(V x, C& carry) {
    if constexpr (sizeof(C) == sizeof(element<V>)) {
        V p = prefix_sums(x) + carry;
        carry = p[lanes<V> - 1];
        return p;
    } else if constexpr (lanes<V> > 8) {
        halves<V> h = bitcast<halves<V>>(x);
        h.low = running_sum(h.low, carry);
        h.high = running_sum(h.high, carry);
        return bitcast<V>(h);
    } else {
        vec<C, lanes<V>> p = prefix_sums(convert<C>(x)), all = p + carry;
        carry += p[lanes<V> - 1];
        return convert<element<V>>(all);
    }
}
template <class V, class C> KW_INLINE V running_product(V x, C& carry) {
    if constexpr (sizeof(C) == sizeof(element<V>)) {
        V p = prefix_products(x) * carry;
        carry = p[lanes<V> - 1];
        return p;
    } else if constexpr (lanes<V> > 8) {
        halves<V> h = bitcast<halves<V>>(x);
        h.low = running_product(h.low, carry);
        h.high = running_product(h.high, carry);
        return bitcast<V>(h);
    } else {
        vec<C, lanes<V>> p = prefix_products(convert<C>(x)), all = p * carry;
        carry *= p[lanes<V> - 1];
        return convert<element<V>>(all);
    }
}

// ------------------------------------------------------------------------------------------------- loops

// body(i, n, u) for every vector of [from, to): i is its first index, n how many lanes are in use, u which of U
// independent accumulators to use. n is N except in the last call; all calls are inlined.
template <int N, int U, class Body> KW_INLINE void sweep(int64_t from, int64_t to, Body body) {
    int64_t i = from;
    for (; i + U * N <= to; i += U * N) {
#pragma GCC unroll 16
        for (int u = 0; u < U; ++u) body(i + u * N, N, u);
    }
#pragma GCC unroll 1
    for (; i + N <= to; i += N) body(i, N, 0);
    if (i < to) body(i, int(to - i), 0);
}

// Sums of float vectors, made in double.
template <int N> struct wide {
    vec<double, N / 2> low, high;
    KW_INLINE void add(vec<float, N> x) {
        halves<vec<float, N>> h = bitcast<halves<vec<float, N>>>(x);
        low += convert<double>(h.low);
        high += convert<double>(h.high);
    }
    KW_INLINE void join(const wide& other) { low += other.low, high += other.high; }
};

template <int V> struct count { static constexpr int value = V; };

// x in the lanes in use, `otherwise` in the rest.
template <class V> KW_INLINE V keep(V x, int n, V otherwise) {
    return n < lanes<V> ? select(first<lanes<V>>(n), x, otherwise) : x;
}
template <int N> KW_INLINE mask<N> load_bools(const bool* p, int n) {
    return to_mask(convert<int32_t>(load_part<uint8_t, N>(reinterpret_cast<const uint8_t*>(p), n, 0)) != 0);
}
template <int N> KW_INLINE mask<N> load_bools_strided(const bool* p, int64_t stride, int n) {
    return to_mask(convert<int32_t>(load_strided<uint8_t, N>(reinterpret_cast<const uint8_t*>(p), stride, n, 0)) != 0);
}
// Writes the lanes in use; whole vectors go past the caches when STREAM.
template <bool STREAM, class V> KW_INLINE void put(element<V>* p, V v, int n) {
    if (n < lanes<V>) store_part(p, v, n);
    else if constexpr (STREAM) stream(p, v);
    else store(p, v);
}
template <bool STREAM, class M> KW_INLINE void put_bools(bool* p, M m, int n) {
    put<STREAM>(reinterpret_cast<uint8_t*>(p), convert<uint8_t>(m & 1), n);
}
template <class V> KW_INLINE V floor_div(V a, V b) {
    V q = a / b;
    return q - select(to_mask((q * b != a) & ((a < 0) != (b < 0))), broadcast<V>(1), broadcast<V>(0));
}

// ----------------------------------------------------------------------------------------------- scalars

// The same arithmetic on single numbers, for what does not change along a vector.
namespace one {
#define KW_ONE(name)                                                            \
    KW_INLINE float name(float x) { return __builtin_##name##f(x); }            \
    KW_INLINE double name(double x) { return __builtin_##name(x); }
KW_ONE(exp) KW_ONE(expm1) KW_ONE(log) KW_ONE(log1p) KW_ONE(tanh) KW_ONE(erf) KW_ONE(erfc) KW_ONE(sin) KW_ONE(cos)
KW_ONE(tan) KW_ONE(asin) KW_ONE(acos) KW_ONE(atan) KW_ONE(sinh) KW_ONE(cosh) KW_ONE(exp2) KW_ONE(log2) KW_ONE(log10)
KW_ONE(sqrt) KW_ONE(floor) KW_ONE(ceil) KW_ONE(trunc)
#undef KW_ONE
KW_INLINE float round_even(float x) { return __builtin_rintf(x); }
KW_INLINE double round_even(double x) { return __builtin_rint(x); }
KW_INLINE float pow(float x, float y) { return __builtin_powf(x, y); }
KW_INLINE double pow(double x, double y) { return __builtin_pow(x, y); }
KW_INLINE float fmod(float x, float y) { return __builtin_fmodf(x, y); }
KW_INLINE double fmod(double x, double y) { return __builtin_fmod(x, y); }
KW_INLINE float atan2(float x, float y) { return __builtin_atan2f(x, y); }
KW_INLINE double atan2(double x, double y) { return __builtin_atan2(x, y); }
template <class T> KW_INLINE T rsqrt(T x) { return 1 / sqrt(x); }
template <class T> KW_INLINE T reciprocal(T x) { return 1 / x; }
template <class T> KW_INLINE T sigmoid(T x) { return 1 / (1 + exp(-x)); }
template <class T> KW_INLINE T maximum(T a, T b) { return a != a || a > b ? a : b; }
template <class T> KW_INLINE T minimum(T a, T b) { return a != a || a < b ? a : b; }
template <class T> KW_INLINE T max_second(T a, T b) { return a > b ? a : b; }
template <class T> KW_INLINE T sign(T x) { return x > 0 ? T(1) : (x < 0 ? T(-1) : T(0)); }
KW_INLINE float abs(float x) { return __builtin_fabsf(x); }
KW_INLINE double abs(double x) { return __builtin_fabs(x); }
template <class T> KW_INLINE T abs(T x) { return x < 0 ? -x : x; }
template <class T> KW_INLINE T floor_div(T a, T b) {
    T q = a / b;
    return q - (q * b != a && (a < 0) != (b < 0) ? 1 : 0);
}
KW_INLINE float from_bf16(uint16_t x) { return kw::from_bf16(vec<uint16_t, 4>{x})[0]; }
KW_INLINE float from_fp16(uint16_t x) { return kw::from_fp16(vec<uint16_t, 8>{x})[0]; }
KW_INLINE uint16_t to_bf16(float x) { return kw::to_bf16(vec<float, 4>{x})[0]; }
KW_INLINE uint16_t to_fp16(float x) { return kw::to_fp16(vec<float, 8>{x})[0]; }
}  // namespace one

}  // namespace kw
