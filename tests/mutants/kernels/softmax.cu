// KERNEL: a block for each row, maximum and sum through shared memory
// PROBLEM: odd_softmax
// kernelwright-launch: softmax grid=61 block=128
#include <math.h>
constexpr int columns = 173;
extern "C" __global__ void softmax(const float* x, float* out) {
  __shared__ float shared[128];
  const float* row = x + blockIdx.x * columns;
  const int t = threadIdx.x;
  float m = -INFINITY;
  for (int i = t; i < columns; i += 128) m = row[i] > m || isnan(row[i]) ? row[i] : m;
  shared[t] = m;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (t < half) {
      const float other = shared[t + half];
      if (other > shared[t] || isnan(other)) shared[t] = other;
    }
    __syncthreads();
  }
  m = shared[0];
  __syncthreads();
  float sum = 0.0f;
  for (int i = t; i < columns; i += 128) sum += expf(row[i] - m);
  shared[t] = sum;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (t < half) shared[t] += shared[t + half];
    __syncthreads();
  }
  for (int i = t; i < columns; i += 128) out[blockIdx.x * columns + i] = expf(row[i] - m) / shared[0];
}
