// Tensor cores, asynchronous copies, barriers and clusters: one small device function for each PTX instruction.
//
// The emulation has a header of the same name with functional models (emulation/include/kernelwright_tensor.h), so that
// kernels written with these functions also run, and can be wrong, without a device. Shared memory is named by 32-bit
// addresses in the block's own window. Sources: PTX ISA 9.0 (mma, wgmma, cp.async.bulk.tensor, mbarrier, setmaxnreg).
// Not here: what sm_80 has (kernelwright_warps.h), wgmma itself, whose operands depend on the tile's width (a kernel's
// printer writes that one function).
#pragma once
#include <cuda.h>

#include <kernelwright_warps.h>

namespace kernelwright {

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

// The same for a warp that tells the others and does not wait.
KW_DEVICE void announce(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
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
// Orders ordinary writes of shared memory before what the copy engine and the tensor cores read next.
KW_DEVICE void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ------------------------------------------------------------------------------------ matrices into shared memory (sm_90)
// 8 x 8 matrices of 16-bit numbers in mma's layout, or their transposes; lane 8 i + r gives the address of row r of matrix i.
template <bool TRANSPOSED>
KW_DEVICE void store_matrices4(uint32_t to, const uint32_t (&x)[4]) {
  if constexpr (TRANSPOSED)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]) : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]) : "memory");
}
template <bool TRANSPOSED>
KW_DEVICE void store_matrices2(uint32_t to, uint32_t x, uint32_t y) {
  if constexpr (TRANSPOSED)
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(x), "r"(y) : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(x), "r"(y) : "memory");
}

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
// The halves of a meeting that orders nothing but itself (and what a fence has ordered): for the beginning of a kernel.
KW_DEVICE void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
KW_DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
// Sixteen bytes into another block's memory; that block's barrier counts them when they are there.
KW_DEVICE void cluster_send(float4 x, uint32_t to, uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{ .reg .b32 there, counting;\n mapa.shared::cluster.u32 there, %4, %6;\n"
      " mapa.shared::cluster.u32 counting, %5, %6;\n"
      " st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [there], {%0, %1, %2, %3}, [counting]; }"
      ::"f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w), "r"(to), "r"(barrier), "r"(rank) : "memory");
}
KW_DEVICE void grid_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
KW_DEVICE void grid_trigger() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

}  // namespace kernelwright
