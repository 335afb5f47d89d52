// The functional models of languages/cuda_include/kernelwright_warps.h, for the judge's emulation: what each function
// means. Fragments are laid out as the PTX ISA says (mma.m16n8k16, mma.m16n8k8, ldmatrix).
//
// Covers: every function of that header; the lanes of a warp have to meet; shared memory is watched as ever.
// Does not cover: a copy that is read before it was waited for (copies are done at once); how tensor cores round sums.
#pragma once
#include "kernelwright_emulation/device.hpp"

#define KW_DEVICE inline

namespace kernelwright {
namespace ke = kernelwright_emulation;
struct Half {};
struct Brain {};
inline float kernelwright_wide(Half, uint32_t bits) { return ke::half_to_float(uint16_t(bits)); }
inline float kernelwright_wide(Brain, uint32_t bits) { return ke::bfloat_to_float(uint16_t(bits)); }

inline unsigned char* shared_memory() { return ke::arena; }
inline uint32_t shared_address(const void* at) {
  return uint32_t(static_cast<const unsigned char*>(at) - ke::arena);
}

// What every lane brings and takes away; the last lane to come does the work of all.
struct Fragments {
  const uint32_t *a, *b;
  float* d;
};
template <class Each>
KWE_PLAIN void meet(const Fragments& mine, int line, Each each) {
  const Fragments* at = &mine;
  std::memcpy(ke::lanes[ke::current].given, &at, sizeof at);
  ke::meet_warp(0xffffffffu, line, [each](ke::Lane* warp, uint32_t) {
    const Fragments* all[32];
    for (int i = 0; i < 32; ++i) std::memcpy(&all[i], warp[i].given, sizeof all[i]);
    for (int lane = 0; lane < 32; ++lane)
      for (int e = 0; e < 4; ++e) all[lane]->d[e] += each(all, lane / 4 + e / 2 * 8, lane % 4 * 2 + e % 2);
  });
}
template <class Kind>
KWE_PLAIN void mma(Kind kind, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, int line = __builtin_LINE()) {
  const uint32_t b[2] = {b0, b1};
  meet({a, b, d}, line, [kind](const Fragments** all, int row, int column) {
    float sum = 0;
    for (int k = 0; k < 16; ++k) {
      const uint32_t left = all[row % 8 * 4 + k % 8 / 2]->a[row / 8 + k / 8 * 2];
      const uint32_t right = all[column * 4 + k % 8 / 2]->b[k / 8];
      sum += kernelwright_wide(kind, left >> 16 * (k % 2)) * kernelwright_wide(kind, right >> 16 * (k % 2));
    }
    return sum;
  });
}
KWE_PLAIN inline void mma_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, int line = __builtin_LINE()) {
  const uint32_t b[2] = {b0, b1};
  meet({a, b, d}, line, [](const Fragments** all, int row, int column) {
    float sum = 0;
    for (int k = 0; k < 8; ++k) {
      const uint32_t left = all[row % 8 * 4 + k % 4]->a[row / 8 + k / 4 * 2] & 0xffffe000u;
      const uint32_t right = all[column * 4 + k % 4]->b[k / 4] & 0xffffe000u;
      sum += __uint_as_float(left) * __uint_as_float(right);
    }
    return sum;
  });
}
inline uint32_t to_tf32(float x) {
  const uint32_t bits = __float_as_uint(x);
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
}

template <int COUNT>
inline void ldmatrix(uint32_t (&to)[COUNT], uint32_t from, bool transposed, int line) {
  if (from % 16) ke::fault(ke::kMisaligned, line);
  const int lane = ke::current % 32;
  for (int i = 0; i < COUNT; ++i) {
    uint16_t two[2];
    for (int e = 0; e < 2; ++e) {
      const int row = transposed ? lane % 4 * 2 + e : lane / 4, column = transposed ? lane / 4 : lane % 4 * 2 + e;
      const uint32_t first = ke::exchange(0xffffffffu, from, 8 * i + row, line);
      two[e] = *reinterpret_cast<const uint16_t*>(ke::arena + first + 2 * column);
    }
    to[i] = uint32_t(two[1]) << 16 | two[0];
  }
}
#define KWE_MATRIX(name, count, transposed)                                                    \
  inline void name(uint32_t (&to)[count], uint32_t from, int line = __builtin_LINE()) { \
    ldmatrix(to, from, transposed, line);                                                      \
  }
KWE_MATRIX(ldmatrix4, 4, false) KWE_MATRIX(ldmatrix4_transposed, 4, true)
KWE_MATRIX(ldmatrix2, 2, false) KWE_MATRIX(ldmatrix2_transposed, 2, true)
#undef KWE_MATRIX

template <int bytes>
inline void copy_async(uint32_t to, const void* from, bool there, int line = __builtin_LINE()) {
  if (to % bytes || (there && reinterpret_cast<uintptr_t>(from) % bytes)) ke::fault(ke::kMisaligned, line);
  for (int i = 0; i < bytes / 4; ++i)
    reinterpret_cast<uint32_t*>(ke::arena + to)[i] = there ? static_cast<const uint32_t*>(from)[i] : 0;
}
inline void copy_commit() {}
template <int left>
inline void copy_wait() {}
inline uint4 load_streaming(const void* from) { return *static_cast<const uint4*>(from); }

}  // namespace kernelwright
