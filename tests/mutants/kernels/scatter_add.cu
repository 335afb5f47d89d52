// KERNEL: sums in shared memory for each block, then all blocks add theirs
// PROBLEM: scatter_add
// kernelwright-memset: out byte=0
// kernelwright-launch: scatter_add grid=40 block=256
constexpr int count = 40009, bins = 61;
extern "C" __global__ void scatter_add(const long long* index, const float* x, float* out) {
  __shared__ float sums[bins];
  for (int b = threadIdx.x; b < bins; b += blockDim.x) sums[b] = 0.0f;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    atomicAdd(&sums[index[i]], x[i]);
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += blockDim.x) atomicAdd(&out[b], sums[b]);
}
