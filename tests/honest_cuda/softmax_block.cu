// HONEST: a block for each row, reductions by shuffles and one array in shared memory
// kernelwright-launch: softmax_block grid=64 block=256
__device__ float reduce(float v, bool largest) {
  __shared__ float warps[8];
  for (int step = 16; step; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, v, step);
    v = largest ? (other > v || other != other ? other : v) : v + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  v = warps[0];
  for (int i = 1; i < 8; ++i) v = largest ? (warps[i] > v || warps[i] != warps[i] ? warps[i] : v) : v + warps[i];
  return v;
}
extern "C" __global__ void __launch_bounds__(256) softmax_block(const float* __restrict__ x, float* __restrict__ out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float m = reduce(__ldg(x + i), true), e = __expf(x[i] - m);
  out[i] = e / reduce(e, false);
}
