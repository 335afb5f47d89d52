// TENSOR: x input float32 65536
// TENSOR: out output float32
// kernelwright-workspace: partial float 64
// kernelwright-workspace: arrived uint32_t 1
// kernelwright-memset: arrived byte=0
// kernelwright-launch: total grid=64 block=256 cooperative
// All blocks are resident at once, so the last sum may wait for the others'.
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
extern "C" __global__ void total(const float* x, float* out, float* partial, unsigned* arrived) {
  float v = 0;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < 65536; i += 64 * 256) v += x[i];
  v = block_sum(v);
  if (threadIdx.x == 0) {
    __stcg(partial + blockIdx.x, v);
    __threadfence();
    atomicAdd(arrived, 1u);
    while (atomicAdd(arrived, 0u) < 64) __nanosleep(20);
    __threadfence();
  }
  __syncthreads();
  if (blockIdx.x == 0) {
    v = threadIdx.x < 32 ? __ldcg(partial + threadIdx.x) + __ldcg(partial + 32 + threadIdx.x) : 0;
    v = block_sum(v);
    if (threadIdx.x == 0) *out = v;
  }
}
