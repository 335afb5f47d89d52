// ARCH: sm_90a sm_100
// TENSOR: x input float32 128 64
// TENSOR: out output float32 128 64
// kernelwright-tensor-map: x_map of=x shape=64,128 strides=256 box=32,64
// kernelwright-tensor-map: out_map of=out shape=64,128 strides=256 box=32,64
// kernelwright-launch: copy grid=2,2 block=128
#include <cuda.h>
#include <cstdint>
extern "C" __global__ void copy(const __grid_constant__ CUtensorMap x_map, const __grid_constant__ CUtensorMap out_map) {
  __shared__ alignas(128) float tile[64 * 32];
  __shared__ alignas(8) uint64_t barrier;
  uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
  uint32_t full = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
  int column = blockIdx.x * 32, row = blockIdx.y * 64;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(64 * 32 * 4) : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
        "l"(&x_map), "r"(column), "r"(row), "r"(full)
        : "memory");
  }
  uint32_t done = 0;
  while (!done)
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(full)
        : "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&out_map),
                 "r"(column), "r"(row), "r"(to)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
