// HONEST: the block that comes last adds up what the others have left
// PROBLEM: mse
// kernelwright-workspace: parts float 16
// kernelwright-workspace: come uint32_t 1
// kernelwright-memset: come byte=0
// kernelwright-launch: mse_last_block grid=16 block=256
extern "C" __global__ void mse_last_block(const float* x, const float* y, float* out, float* parts, unsigned* come) {
  __shared__ double warps[8];
  __shared__ bool last;
  double sum = 0;
  for (int k = 0; k < 4; ++k) {
    const int i = (blockIdx.x * 4 + k) * 256 + threadIdx.x;
    const float d = x[i] - y[i];
    sum += d * d;
  }
  for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < 8; ++i) sum += warps[i];
    parts[blockIdx.x] = float(sum / (64 * 256));
    __threadfence();
    last = atomicInc(come, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float all = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) all += __ldcg(parts + i);
    *out = all;
  }
}
