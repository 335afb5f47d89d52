// HONEST: every block adds its share to the output, in whatever order blocks run
// PROBLEM: mse
// kernelwright-memset: out byte=0
// kernelwright-launch: mse_atomics grid=32 block=128
extern "C" __global__ void mse_atomics(const float* x, const float* y, float* out) {
  __shared__ float total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 64 * 256; i += gridDim.x * blockDim.x)
    sum += (x[i] - y[i]) * (x[i] - y[i]);
  atomicAdd(&total, sum);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(out, total / (64 * 256));
}
