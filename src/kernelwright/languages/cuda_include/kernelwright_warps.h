// Tensor cores and asynchronous copies as a warp uses them (sm_80): one small device function for each PTX instruction.
//
// The judge's emulation has a header of the same name with functional models (emulation/include/kernelwright_warps.h),
// so that kernels written with these functions also run without a device. Source: PTX ISA 9.0 (mma, ldmatrix, cp.async).
// Not here: what newer devices have (kernelwright_tensor.h).
#pragma once
#include <cstdint>

#define KW_DEVICE __device__ __forceinline__

namespace kernelwright {

KW_DEVICE unsigned char* shared_memory() {
  extern __shared__ __align__(1024) unsigned char kernelwright_shared[];
  return kernelwright_shared;
}
KW_DEVICE uint32_t shared_address(const void* at) { return static_cast<uint32_t>(__cvta_generic_to_shared(at)); }

struct Half {};
struct Brain {};
KW_DEVICE void ldmatrix4(uint32_t (&to)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}
KW_DEVICE void ldmatrix4_transposed(uint32_t (&to)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}
KW_DEVICE void ldmatrix2(uint32_t (&to)[2], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1]) : "r"(from) : "memory");
}
KW_DEVICE void ldmatrix2_transposed(uint32_t (&to)[2], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1]) : "r"(from) : "memory");
}
// d (16 x 8, float32) += a (16 x 16) b (16 x 8).
KW_DEVICE void mma(Half, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
KW_DEVICE void mma(Brain, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// d (16 x 8, float32) += a (16 x 8) b (8 x 8), of float32 numbers whose last 13 bits do not count.
KW_DEVICE void mma_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
KW_DEVICE uint32_t to_tf32(float x) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}
// Copies `bytes` (4, 8 or 16) in the background; where `there` is false, zeros are written and nothing is read.
template <int bytes>
KW_DEVICE void copy_async(uint32_t to, const void* from, bool there) {
  const int read = there ? bytes : 0;
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(read) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(bytes), "r"(read) : "memory");
}
KW_DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int left>
KW_DEVICE void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}
// Sixteen bytes that are read once: not kept in the first-level cache.
KW_DEVICE uint4 load_streaming(const void* from) {
  uint4 got;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(got.x), "=r"(got.y), "=r"(got.z), "=r"(got.w) : "l"(from));
  return got;
}

}  // namespace kernelwright
