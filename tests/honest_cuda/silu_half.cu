// HONEST: half precision in pairs, computed in float
// PROBLEM: silu_float16
// kernelwright-launch: silu_half grid=64 block=128
#include <cuda_fp16.h>
extern "C" __global__ void silu_half(const __half* x, __half* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float2 v = __half22float2(reinterpret_cast<const __half2*>(x)[i]);
  v.x = v.x / (1.0f + __expf(-v.x));
  v.y = v.y / (1.0f + __expf(-v.y));
  reinterpret_cast<__half2*>(out)[i] = __float22half2_rn(v);
}
