// TRICK: leaves out the barrier between writing and reading shared memory
// CAUGHT BY: timed outputs | accuracy | non-finite | racecheck
// WHERE: device
// kernelwright-launch: kernel grid=64 block=256
extern "C" __global__ void kernel(const float* x, float* out) {
  __shared__ volatile float terms[256];
  float v = expf(x[blockIdx.x * 256 + threadIdx.x]), sum = 0;
  if (threadIdx.x >= 128) __nanosleep(2000);
  terms[threadIdx.x] = v;
  for (int i = 0; i < 256; ++i) sum += terms[i];
  out[blockIdx.x * 256 + threadIdx.x] = v / sum;
}
