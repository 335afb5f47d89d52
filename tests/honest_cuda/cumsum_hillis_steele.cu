// HONEST: a scan in shared memory with two buffers
// PROBLEM: cumsum
// kernelwright-launch: cumsum_hillis_steele grid=64 block=256
extern "C" __global__ void cumsum_hillis_steele(const float* x, float* out) {
  __shared__ float both[2][256];
  const int t = threadIdx.x;
  int now = 0;
  both[now][t] = x[blockIdx.x * 256 + t];
  __syncthreads();
  for (int step = 1; step < 256; step *= 2) {
    both[1 - now][t] = t >= step ? both[now][t] + both[now][t - step] : both[now][t];
    now = 1 - now;
    __syncthreads();
  }
  out[blockIdx.x * 256 + t] = both[now][t];
}
