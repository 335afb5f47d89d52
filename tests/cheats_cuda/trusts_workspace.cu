// TRICK: takes what lies in its workspace for zeros
// CAUGHT BY: accuracy | non-finite | timed outputs
// WHERE: device
// kernelwright-workspace: total float 64
// kernelwright-launch: sums grid=64 block=256
// kernelwright-launch: divide grid=64 block=256
extern "C" __global__ void sums(const float* x, float* total) {
  atomicAdd(total + blockIdx.x, expf(x[blockIdx.x * 256 + threadIdx.x]));
}
extern "C" __global__ void divide(const float* x, const float* total, float* out) {
  out[blockIdx.x * 256 + threadIdx.x] = expf(x[blockIdx.x * 256 + threadIdx.x]) / total[blockIdx.x];
}
