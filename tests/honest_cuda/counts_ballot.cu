// HONEST: counts by votes of the warps and of the block
// PROBLEM: counts
// kernelwright-launch: counts_ballot grid=64 block=128
extern "C" __global__ void counts_ballot(const float* x, long long* out) {
  const float* row = x + blockIdx.x * 256;
  const int first = __syncthreads_count(row[threadIdx.x] > 0);
  __shared__ int warps[4];
  const unsigned yes = __ballot_sync(0xffffffffu, row[128 + threadIdx.x] > 0);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = __popc(yes);
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = first + warps[0] + warps[1] + warps[2] + warps[3];
}
