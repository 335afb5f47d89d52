// TENSOR: x input float32 64 256
// TENSOR: out output float32 64 256
// kernelwright-launch: softmax grid=16 block=32,4
#include <cmath>
#include <cstdint>
// One warp for each row: the row stays in registers.
constexpr int columns = 256, each = columns / 32;
__device__ __forceinline__ float across(float v, bool largest) {
#pragma unroll
  for (int step = 16; step; step /= 2) {
    float other = __shfl_xor_sync(0xffffffffu, v, step);
    v = largest ? (other > v || isnan(other) ? other : v) : v + other;
  }
  return v;
}
extern "C" __global__ void __launch_bounds__(128) softmax(const float* __restrict__ x, float* __restrict__ out) {
  int64_t row = blockIdx.x * 4 + threadIdx.y;
  float kept[each], m = -INFINITY, sum = 0;
#pragma unroll
  for (int i = 0; i < each; ++i) {
    kept[i] = x[row * columns + i * 32 + threadIdx.x];
    m = kept[i] > m || std::isnan(kept[i]) ? kept[i] : m;
  }
  m = across(m, true);
#pragma unroll
  for (int i = 0; i < each; ++i) sum += kept[i] = expf(kept[i] - m);
  sum = across(sum, false);
#pragma unroll
  for (int i = 0; i < each; ++i) out[row * columns + i * 32 + threadIdx.x] = kept[i] / sum;
}
