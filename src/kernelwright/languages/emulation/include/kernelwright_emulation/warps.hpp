// Barriers, shuffles, votes and reductions of a block and a warp, under CUDA's names.
#pragma once
#include "block.hpp"

#define KWE_LINE int line = __builtin_LINE()

inline void __syncthreads(KWE_LINE) { kernelwright_emulation::meet_block(true, line); }
inline int __syncthreads_count(int vote, KWE_LINE) {
  kernelwright_emulation::meet_block(vote != 0, line);
  return kernelwright_emulation::vote_count;
}
inline int __syncthreads_and(int vote, KWE_LINE) {
  kernelwright_emulation::meet_block(vote != 0, line);
  return kernelwright_emulation::vote_all;
}
inline int __syncthreads_or(int vote, KWE_LINE) {
  kernelwright_emulation::meet_block(vote != 0, line);
  return kernelwright_emulation::vote_any;
}
inline void __syncwarp(unsigned mask = 0xffffffffu, KWE_LINE) {
  kernelwright_emulation::meet_warp(mask, line, [](kernelwright_emulation::Lane*, uint32_t) {});
}

template <class T>
T __shfl_sync(unsigned mask, T x, int from, int width = 32, KWE_LINE) {
  const int lane = kernelwright_emulation::current % 32, low = lane / width * width;
  return kernelwright_emulation::exchange(mask, x, low + (from & (width - 1)), line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T x, unsigned offset, int width = 32, KWE_LINE) {
  const int lane = kernelwright_emulation::current % 32, low = lane / width * width, from = lane - int(offset);
  return kernelwright_emulation::exchange(mask, x, from < low ? lane : from, line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T x, unsigned offset, int width = 32, KWE_LINE) {
  const int lane = kernelwright_emulation::current % 32, end = lane / width * width + width, from = lane + int(offset);
  return kernelwright_emulation::exchange(mask, x, from >= end ? lane : from, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T x, int bits, int width = 32, KWE_LINE) {
  const int lane = kernelwright_emulation::current % 32, end = lane / width * width + width, from = lane ^ bits;
  return kernelwright_emulation::exchange(mask, x, from >= end ? lane : from, line);
}

inline unsigned __ballot_sync(unsigned mask, int vote, KWE_LINE) {
  return kernelwright_emulation::ballot(mask, vote != 0, line);
}
inline int __any_sync(unsigned mask, int vote, KWE_LINE) {
  return kernelwright_emulation::ballot(mask, vote != 0, line) != 0;
}
inline int __all_sync(unsigned mask, int vote, KWE_LINE) {
  return kernelwright_emulation::ballot(mask, vote == 0, line) == 0;
}
// Who is there when it is asked: a compiler may run the lanes of a branch together or one by one.
inline unsigned __activemask() { return 1u << kernelwright_emulation::current % 32; }

template <class T>
unsigned __match_any_sync(unsigned mask, T x, KWE_LINE) {
  kernelwright_emulation::Lane& mine = kernelwright_emulation::lanes[kernelwright_emulation::current];
  std::memcpy(mine.given, &x, sizeof x);
  kernelwright_emulation::meet_warp(mask, line, [](kernelwright_emulation::Lane* warp, uint32_t present) {
    for (int i = 0; i < 32; ++i) {
      warp[i].result = 0;
      for (int j = 0; j < 32 && present >> i & 1; ++j)
        if (present >> j & 1 && !std::memcmp(warp[i].given, warp[j].given, sizeof(T))) warp[i].result |= 1u << j;
    }
  });
  return mine.result;
}
template <class T>
unsigned __match_all_sync(unsigned mask, T x, int* all, KWE_LINE) {
  const unsigned same = __match_any_sync(mask, x, line);
  const unsigned present = kernelwright_emulation::ballot(mask, true, line);
  *all = same == present;
  return same == present ? mask : 0;
}

#define KWE_REDUCE(name, expression)                                                       \
  template <class T>                                                                       \
  T __reduce_##name##_sync(unsigned mask, T x, KWE_LINE) {                                 \
    return kernelwright_emulation::gather(mask, x, line, [](T a, T b) { return T(expression); }); \
  }
KWE_REDUCE(add, a + b) KWE_REDUCE(min, b < a ? b : a) KWE_REDUCE(max, a < b ? b : a)
KWE_REDUCE(and, a & b) KWE_REDUCE(or, a | b) KWE_REDUCE(xor, a ^ b)
#undef KWE_REDUCE

inline void __threadfence() { kernelwright_emulation::fence(); }
inline void __threadfence_block() { kernelwright_emulation::fence(); }
inline void __threadfence_system() { kernelwright_emulation::fence(); }
inline void __nanosleep(unsigned) {}
[[noreturn]] inline void __trap() { kernelwright_emulation::fault(kernelwright_emulation::kTrap, 0); }
