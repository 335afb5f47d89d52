// Tensor cores of one warp for the emulation: what ldmatrix and mma.sync mean, by their fragments' layouts (PTX ISA).
//
// Covers: the functions of cuda_include/kernelwright_tensor.h that need no barrier object, no copy engine and no
//   cluster; every access to shared memory is watched as a kernel's own. Not here: the others, whose models run beside
//   this emulation (clusters/kernelwright_tensor.h).
#pragma once
#include <cstdint>

#define KW_DEVICE inline

namespace kernelwright {

struct Half {};
struct Brain {};

inline unsigned char* shared_memory() { return kernelwright_emulation::arena; }
inline uint32_t shared_address(const void* at) {
  return uint32_t(static_cast<const unsigned char*>(at) - kernelwright_emulation::arena);
}

template <int COUNT>
inline void ldmatrix(uint32_t (&to)[COUNT], uint32_t from, bool transposed) {
  const int lane = kernelwright_emulation::current % 32;
  for (int i = 0; i < COUNT; ++i) {
    uint32_t pair = 0;
    for (int e = 0; e < 2; ++e) {
      const int row = transposed ? lane % 4 * 2 + e : lane / 4, column = transposed ? lane / 4 : lane % 4 * 2 + e;
      const uint32_t at = __shfl_sync(0xffffffffu, from, 8 * i + row);
      if (at % 16) __trap();
      pair |= uint32_t(*reinterpret_cast<const uint16_t*>(kernelwright_emulation::arena + at + column * 2)) << 16 * e;
    }
    to[i] = pair;
  }
}
inline void ldmatrix4(uint32_t (&to)[4], uint32_t from) { ldmatrix(to, from, false); }
inline void ldmatrix4_transposed(uint32_t (&to)[4], uint32_t from) { ldmatrix(to, from, true); }
inline void ldmatrix2(uint32_t (&to)[2], uint32_t from) { ldmatrix(to, from, false); }
inline void ldmatrix2_transposed(uint32_t (&to)[2], uint32_t from) { ldmatrix(to, from, true); }

namespace models {
struct Given {
  uint32_t a[4], b[2];
  float d[4];
};
static Given given[kernelwright_emulation::kMostThreads];
KWE_PLAIN inline float wide(Half, uint32_t bits) { return kernelwright_emulation::half_to_float(uint16_t(bits)); }
KWE_PLAIN inline float wide(Brain, uint32_t bits) { return kernelwright_emulation::bfloat_to_float(uint16_t(bits)); }
template <class Kind>
KWE_PLAIN inline void multiply(Kind kind, Given* warp) {
  float left[16][16], right[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i)
      left[lane / 4 + i / 2 % 2 * 8][lane % 4 * 2 + i % 2 + i / 4 * 8] = wide(kind, warp[lane].a[i / 2] >> 16 * (i % 2));
    for (int i = 0; i < 4; ++i)
      right[lane % 4 * 2 + i % 2 + i / 2 * 8][lane / 4] = wide(kind, warp[lane].b[i / 2] >> 16 * (i % 2));
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int e = 0; e < 4; ++e) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += left[lane / 4 + e / 2 * 8][k] * right[k][lane % 4 * 2 + e % 2];
      warp[lane].d[e] += sum;
    }
}
}  // namespace models

// d (16 x 8, float32) += a (16 x 16) b (16 x 8).
template <class Kind>
KWE_PLAIN inline void mma(Kind kind, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, KWE_LINE) {
  models::Given* warp = models::given + kernelwright_emulation::current / 32 * 32;
  models::Given& mine = models::given[kernelwright_emulation::current];
  mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}, {d[0], d[1], d[2], d[3]}};
  kernelwright_emulation::meet_warp(0xffffffffu, line, [kind, warp](kernelwright_emulation::Lane*, uint32_t) {
    models::multiply(kind, warp);
  });
  for (int e = 0; e < 4; ++e) d[e] = mine.d[e];
}

}  // namespace kernelwright
