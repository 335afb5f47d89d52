// TRICK: answers with zeros
// CAUGHT BY: accuracy
// WHERE: device
// kernelwright-launch: kernel grid=64 block=256
extern "C" __global__ void kernel(const float* x, float* out) {
  out[blockIdx.x * 256 + threadIdx.x] = 0;
}
