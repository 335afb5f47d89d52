// TENSOR: x input float32 64 256
// TENSOR: weight parameter float32 256
// TENSOR: bias parameter float32 256
// TENSOR: out output float32 64 256
// kernelwright-launch: layer_norm grid=64 block=256 eps=1e-5
#include <cstdint>
template <class T> __device__ T block_sum(T v, T* partial) {
  for (int step = 16; step; step /= 2) v += __shfl_down_sync(~0u, v, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  T total = 0;
  for (int i = 0; i < 8; ++i) total += partial[i];
  return total;
}
extern "C" __global__ void layer_norm(const float* x, const float* weight, const float* bias, float* out, float eps) {
  __shared__ float partial[8];
  int64_t at = int64_t(blockIdx.x) * 256 + threadIdx.x;
  float v = x[at];
  float mean = block_sum(v, partial) / 256;
  float centred = v - mean;
  float variance = block_sum(centred * centred, partial) / 256;
  out[at] = centred * rsqrtf(variance + eps) * weight[threadIdx.x] + bias[threadIdx.x];
}
