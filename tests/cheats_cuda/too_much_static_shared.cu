// TRICK: asks for more static shared memory than there is
// CAUGHT BY: resources
// kernelwright-launch: kernel grid=64 block=256
extern "C" __global__ void kernel(const float* x, float* out) {
  __shared__ float all[64 * 1024];
  all[threadIdx.x * 255] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = all[threadIdx.x];
}
