// HONEST: any number of rows and columns, a warp for each row
// PROBLEM: dynamic
// kernelwright-launch: dynamic_softmax grid=ceil_div(R,4) block=32,4
#include <math.h>
extern "C" __global__ void dynamic_softmax(const float* x, float* out, int R, long long C) {
  const int row = blockIdx.x * 4 + threadIdx.y;
  if (row >= R) return;
  float m = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < C; i += 32) {
    const float v = x[row * C + i];
    m = v > m || v != v ? v : m;
  }
  for (int step = 16; step; step /= 2) {
    const float other = __shfl_xor_sync(~0u, m, step);
    m = other > m || other != other ? other : m;
  }
  for (int i = threadIdx.x; i < C; i += 32) sum += expf(x[row * C + i] - m);
  for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  for (int i = threadIdx.x; i < C; i += 32) out[row * C + i] = expf(x[row * C + i] - m) / sum;
}
