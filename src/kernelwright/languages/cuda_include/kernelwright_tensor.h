// Tensor cores, asynchronous copies, barriers and clusters: one small device function for each PTX instruction.
//
// The emulation has a header of the same name with functional models (emulation/include/kernelwright_tensor.h), so that
// kernels written with these functions also run, and can be wrong, without a device. Shared memory is named by 32-bit
// addresses in the block's own window. Sources: PTX ISA 9.0 (mma, wgmma, cp.async.bulk.tensor, mbarrier, setmaxnreg).
// Not here: wgmma itself, whose operands depend on the tile's width (a kernel's printer writes that one function).
#pragma once
#include <cuda.h>
#include <cstdint>

#define KW_DEVICE __device__ __forceinline__

namespace kernelwright {

KW_DEVICE unsigned char* shared_memory() {
  extern __shared__ __align__(1024) unsigned char kernelwright_shared[];
  return kernelwright_shared;
}
KW_DEVICE uint32_t shared_address(const void* at) { return static_cast<uint32_t>(__cvta_generic_to_shared(at)); }

// ------------------------------------------------------------------------------------ barriers in shared memory
KW_DEVICE void barrier_init(uint32_t barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
KW_DEVICE void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
KW_DEVICE void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
KW_DEVICE void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
KW_DEVICE void barrier_arrive_at(uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{ .reg .b32 there;\n mapa.shared::cluster.u32 there, %0, %1;\n"
      " mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(barrier), "r"(rank) : "memory");
}
KW_DEVICE void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{ .reg .pred done;\nkw_again:\n mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      " @done bra kw_finished;\n bra kw_again;\nkw_finished:\n }" ::"r"(barrier), "r"(parity) : "memory");
}
// A barrier of some of the block's threads; number 0 is __syncthreads'.
KW_DEVICE void meet(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// ------------------------------------------------------------------------------------ copies by tensor map
KW_DEVICE void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
KW_DEVICE void load_box(uint32_t to, const CUtensorMap* map, uint32_t barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
      ::"r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z) : "memory");
}
KW_DEVICE void load_box_to_all(uint32_t to, const CUtensorMap* map, uint32_t barrier, int x, int y, int z, uint16_t ranks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4, %5}], [%2], %6;"
      ::"r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(ranks) : "memory");
}
KW_DEVICE void store_box(const CUtensorMap* map, uint32_t from, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];"
               ::"l"(map), "r"(from), "r"(x), "r"(y), "r"(z) : "memory");
}
KW_DEVICE void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int left>
KW_DEVICE void store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(left) : "memory");
}
KW_DEVICE void store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
// Orders ordinary writes of shared memory before what the copy engine and the tensor cores read next.
KW_DEVICE void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ------------------------------------------------------------------------------------ warpgroups (sm_90a)
KW_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
KW_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int left>
KW_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}
template <int registers>
KW_DEVICE void registers_up() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
KW_DEVICE void registers_down() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

// ------------------------------------------------------------------------------------ clusters and grids (sm_90)
KW_DEVICE uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
KW_DEVICE void cluster_meet() {
  asm volatile("barrier.cluster.arrive.release;\n barrier.cluster.wait.acquire;" ::: "memory");
}
KW_DEVICE float4 cluster_load(uint32_t at, uint32_t rank) {
  float4 got;
  asm volatile(
      "{ .reg .b32 there;\n mapa.shared::cluster.u32 there, %4, %5;\n ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there]; }"
      : "=f"(got.x), "=f"(got.y), "=f"(got.z), "=f"(got.w) : "r"(at), "r"(rank) : "memory");
  return got;
}
KW_DEVICE void grid_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
KW_DEVICE void grid_trigger() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// ------------------------------------------------------------------------------------ warps (sm_80)
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
