// TRICK: static and dynamic shared memory are possible alone, not together
// CAUGHT BY: resources
// kernelwright-launch: kernel grid=64 block=256 shared=204800
extern "C" __global__ void kernel(const float* x, float* out) {
  __shared__ float mine[11 * 1024];
  extern __shared__ float more[];
  mine[threadIdx.x * 40] = more[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = mine[threadIdx.x] + more[255 - threadIdx.x];
}
