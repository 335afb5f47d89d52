// HONEST: a histogram in shared memory of the rows that a block holds, by atomic additions
// PROBLEM: counts
// kernelwright-launch: counts_histogram grid=4 block=512
extern "C" __global__ void counts_histogram(const float* x, long long* out) {
  __shared__ unsigned found[16];
  if (threadIdx.x < 16) found[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < 16 * 256; i += blockDim.x)
    if (x[blockIdx.x * 16 * 256 + i] > 0) atomicAdd(&found[i / 256], 1u);
  __syncthreads();
  if (threadIdx.x < 16) out[blockIdx.x * 16 + threadIdx.x] = found[threadIdx.x];
}
