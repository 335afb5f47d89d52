// TRICK: sums in half precision
// CAUGHT BY: accuracy
// WHERE: device
// kernelwright-launch: kernel grid=64 block=256
#include <cuda_fp16.h>
extern "C" __global__ void kernel(const float* x, float* out) {
  __shared__ __half terms[256];
  float v = x[blockIdx.x * 256 + threadIdx.x], m = -1e30f;
  for (int i = 0; i < 256; ++i) m = fmaxf(m, x[blockIdx.x * 256 + i]);
  terms[threadIdx.x] = __float2half(expf(v - m));
  __syncthreads();
  __half sum = __float2half(0.0f);
  for (int i = 0; i < 256; ++i) sum = __hadd(sum, terms[i]);
  out[blockIdx.x * 256 + threadIdx.x] = expf(v - m) / __half2float(sum);
}
