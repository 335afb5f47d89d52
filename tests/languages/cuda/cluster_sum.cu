// ARCH: sm_90a sm_100
// TENSOR: x input float32 64 1024
// TENSOR: out output float32 64
// kernelwright-launch: row_sum grid=4,64 block=256 cluster=4
// Four blocks of a cluster share a row; the first reads the others' sums from their shared memory.
#include <cstdint>
__device__ void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
extern "C" __global__ void row_sum(const float* x, float* out) {
  __shared__ float warps[8], sum;
  float v = x[blockIdx.y * 1024 + blockIdx.x * 256 + threadIdx.x];
  for (int step = 16; step; step /= 2) v += __shfl_down_sync(~0u, v, step);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    sum = 0;
    for (int i = 0; i < 8; ++i) sum += warps[i];
  }
  cluster_barrier();
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    float total = 0;
    for (uint32_t rank = 0; rank < 4; ++rank) {
      uint32_t theirs;
      float part;
      asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(theirs) : "r"(uint32_t(__cvta_generic_to_shared(&sum))), "r"(rank));
      asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(part) : "r"(theirs));
      total += part;
    }
    out[blockIdx.y] = total;
  }
  cluster_barrier();  // nobody leaves while its shared memory may be read
}
