// HONEST: a warp for each row, vectors of four
// kernelwright-launch: softmax_warp grid=16 block=32,4
#include <math.h>
extern "C" __global__ void softmax_warp(const float* x, float* out) {
  const int row = blockIdx.x * 4 + threadIdx.y, lane = threadIdx.x;
  const float4* from = reinterpret_cast<const float4*>(x + row * 256);
  float4 v[2];
  float m = -INFINITY;
  for (int k = 0; k < 2; ++k) {
    v[k] = from[lane + 32 * k];
    const float all[4] = {v[k].x, v[k].y, v[k].z, v[k].w};
    for (float one : all) m = one > m || one != one ? one : m;
  }
  for (int step = 16; step; step /= 2) {
    const float other = __shfl_xor_sync(~0u, m, step);
    m = other > m || other != other ? other : m;
  }
  float sum = 0;
  for (int k = 0; k < 2; ++k) {
    v[k] = make_float4(expf(v[k].x - m), expf(v[k].y - m), expf(v[k].z - m), expf(v[k].w - m));
    sum += v[k].x + v[k].y + v[k].z + v[k].w;
  }
  for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  float4* to = reinterpret_cast<float4*>(out + row * 256);
  for (int k = 0; k < 2; ++k) {
    const float4 e = v[k];
    to[lane + 32 * k] = make_float4(e.x / sum, e.y / sum, e.z / sum, e.w / sum);
  }
}
