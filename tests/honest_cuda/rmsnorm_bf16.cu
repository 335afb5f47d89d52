// HONEST: bfloat16 in and out, sums in float
// PROBLEM: rmsnorm_bfloat16
// kernelwright-launch: rmsnorm_bf16 grid=64 block=128
#include <cuda_bf16.h>
extern "C" __global__ void rmsnorm_bf16(const __nv_bfloat16* x, const __nv_bfloat16* weight, __nv_bfloat16* out) {
  __shared__ float warps[4];
  const int t = threadIdx.x;
  const auto* row = reinterpret_cast<const __nv_bfloat162*>(x) + blockIdx.x * 128;
  const float2 v = __bfloat1622float2(row[t]);
  float sum = v.x * v.x + v.y * v.y;
  for (int step = 16; step > 0; step >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if ((t & 31) == 0) warps[t >> 5] = sum;
  __syncthreads();
  const float scale = rsqrtf((warps[0] + warps[1] + warps[2] + warps[3]) / 256.0f + 1e-6f);
  const __nv_bfloat16 a = __float2bfloat16(v.x * scale), b = __float2bfloat16(v.y * scale);
  out[blockIdx.x * 256 + 2 * t] = __float2bfloat16(__bfloat162float(a) * __bfloat162float(weight[2 * t]));
  out[blockIdx.x * 256 + 2 * t + 1] = __float2bfloat16(__bfloat162float(b) * __bfloat162float(weight[2 * t + 1]));
}
