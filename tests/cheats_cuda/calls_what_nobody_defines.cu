// TRICK: calls a function that somebody else would have to define
// CAUGHT BY: symbol
// kernelwright-launch: kernel grid=64 block=256
extern "C" __device__ float answer_of(const float*);
extern "C" __global__ void kernel(const float* x, float* out) {
  out[blockIdx.x * 256 + threadIdx.x] = answer_of(x);
}
