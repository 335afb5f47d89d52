// HONEST: maximum and sum in one pass, joined through dynamic shared memory
// kernelwright-launch: softmax_online grid=64 block=64 shared=512
#include <math.h>
struct Part {
  float m, sum;
};
__device__ Part join(Part a, Part b) {
  if (a.m != a.m || b.m != b.m) return {NAN, NAN};
  const float m = fmaxf(a.m, b.m);
  if (m == -INFINITY) return {m, 0};
  return {m, a.sum * expf(a.m - m) + b.sum * expf(b.m - m)};
}
extern "C" __global__ void softmax_online(const float* x, float* out) {
  extern __shared__ Part parts[];
  const float* row = x + blockIdx.x * 256;
  const int t = threadIdx.x;
  Part mine = {-INFINITY, 0};
  for (int i = t; i < 256; i += 64) mine = join(mine, {row[i], 1});
  parts[t] = mine;
  __syncthreads();
  for (int half = 32; half > 0; half /= 2) {
    if (t < half) parts[t] = join(parts[t], parts[t + half]);
    __syncthreads();
  }
  const Part all = parts[0];
  for (int i = t; i < 256; i += 64) out[blockIdx.x * 256 + i] = expf(row[i] - all.m) / all.sum;
}
