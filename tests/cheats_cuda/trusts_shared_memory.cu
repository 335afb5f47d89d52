// TRICK: takes what lies in shared memory for zeros
// CAUGHT BY: accuracy | non-finite | timed outputs | initcheck
// WHERE: device
// kernelwright-launch: kernel grid=64 block=256
extern "C" __global__ void kernel(const float* x, float* out) {
  __shared__ float sum;
  float e = expf(x[blockIdx.x * 256 + threadIdx.x]);
  atomicAdd(&sum, e);
  __syncthreads();
  out[blockIdx.x * 256 + threadIdx.x] = e / sum;
}
