// Atomic operations, and loads and stores with hints for caches, which mean nothing here.
//
// One thread runs at a time and is never interrupted inside one, so that each is atomic in any scope.
#pragma once
#include "half.hpp"
#include "shared.hpp"

namespace kernelwright_emulation {

template <class T, class From>
inline T as(From x) { return T(x); }
template <class T, class Change>
KWE_PLAIN T atomic(T* at, Change change, int line) {
  if (reinterpret_cast<uintptr_t>(at) % sizeof(T)) fault(kMisaligned, line);
  touch(at, sizeof(T), kAtomic);
  T old;
  std::memcpy(&old, const_cast<const T*>(at), sizeof old);
  const T changed = change(old);
  std::memcpy(const_cast<T*>(at), &changed, sizeof changed);
  return old;
}

}  // namespace kernelwright_emulation

#define KWE_ATOMIC(name, T, expression)                                                             \
  inline T name(T* at, T x, int line = __builtin_LINE()) {                                          \
    return kernelwright_emulation::atomic(at, [x](T old) { return kernelwright_emulation::as<T>(expression); }, line);          \
  }                                                                                                 \
  inline T name##_block(T* at, T x, int line = __builtin_LINE()) { return name(at, x, line); }      \
  inline T name##_system(T* at, T x, int line = __builtin_LINE()) { return name(at, x, line); }
#define KWE_WHOLE(name, expression) \
  KWE_ATOMIC(name, int, expression) KWE_ATOMIC(name, unsigned, expression) KWE_ATOMIC(name, unsigned long long, expression)
KWE_WHOLE(atomicAdd, old + x) KWE_WHOLE(atomicExch, x) KWE_WHOLE(atomicMin, x < old ? x : old)
KWE_WHOLE(atomicMax, old < x ? x : old) KWE_WHOLE(atomicAnd, old & x) KWE_WHOLE(atomicOr, old | x)
KWE_WHOLE(atomicXor, old ^ x)
KWE_ATOMIC(atomicAdd, float, old + x) KWE_ATOMIC(atomicAdd, double, old + x) KWE_ATOMIC(atomicExch, float, x)
KWE_ATOMIC(atomicAdd, __half, old + x) KWE_ATOMIC(atomicAdd, __nv_bfloat16, old + x)
KWE_ATOMIC(atomicAdd, __half2, __hadd2(old, x)) KWE_ATOMIC(atomicAdd, __nv_bfloat162, __hadd2(old, x))
KWE_ATOMIC(atomicMin, long long, x < old ? x : old) KWE_ATOMIC(atomicMax, long long, old < x ? x : old)
KWE_ATOMIC(atomicSub, int, old - x) KWE_ATOMIC(atomicSub, unsigned, old - x)
KWE_ATOMIC(atomicInc, unsigned, old >= x ? 0 : old + 1)
KWE_ATOMIC(atomicDec, unsigned, old == 0 || old > x ? x : old - 1)
#undef KWE_WHOLE
#undef KWE_ATOMIC

// Locks are made of these.
#define KWE_SWAP(T)                                                                                      \
  inline T atomicCAS(T* at, T expected, T x, int line = __builtin_LINE()) {                              \
    kernelwright_emulation::fence();                                                                     \
    return kernelwright_emulation::atomic(at, [=](T old) { return old == expected ? x : old; }, line);   \
  }
KWE_SWAP(int) KWE_SWAP(unsigned) KWE_SWAP(unsigned long long) KWE_SWAP(unsigned short)
#undef KWE_SWAP

template <class T>
inline T __ldg(const T* at) { return *at; }
#define KWE_HINT(suffix)                                              \
  template <class T>                                                  \
  inline T __ld##suffix(const T* at) { return *at; }                  \
  template <class T>                                                  \
  inline void __st##suffix(T* at, T x) { *at = x; }
KWE_HINT(cg) KWE_HINT(cs)
#undef KWE_HINT
template <class T>
inline T __ldca(const T* at) { return *at; }
template <class T>
inline T __ldlu(const T* at) { return *at; }
template <class T>
inline T __ldcv(const T* at) { return *at; }
template <class T>
inline void __stwb(T* at, T x) { *at = x; }
template <class T>
inline void __stwt(T* at, T x) { *at = x; }
