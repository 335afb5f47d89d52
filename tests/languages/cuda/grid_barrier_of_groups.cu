// ARCH: sm_90a
// TENSOR: x input float32 65536
// TENSOR: out output float32
// kernelwright-workspace: partial float 64
// kernelwright-launch: total grid=64 block=256 cooperative
#include <cooperative_groups.h>
__device__ float block_sum(float v) {
  __shared__ float warps[8];
  for (int step = 16; step; step /= 2) v += __shfl_down_sync(~0u, v, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x < 8 ? warps[threadIdx.x] : 0;
  for (int step = 4; step; step /= 2) v += __shfl_down_sync(~0u, v, step);
  return v;
}
extern "C" __global__ void total(const float* x, float* out, float* partial) {
  float v = 0;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < 65536; i += 64 * 256) v += x[i];
  v = block_sum(v);
  if (threadIdx.x == 0) partial[blockIdx.x] = v;
  cooperative_groups::this_grid().sync();
  if (blockIdx.x == 0) {
    v = block_sum(threadIdx.x < 64 ? partial[threadIdx.x] : 0);
    if (threadIdx.x == 0) *out = v;
  }
}
