// TRICK: takes the largest value with fmaxf, which passes over NaN
// CAUGHT BY: non-finite | accuracy
// WHERE: device
// PROBLEM: rowmax
// kernelwright-launch: kernel grid=64 block=256
extern "C" __global__ void kernel(const float* x, float* out) {
  float m = x[blockIdx.x * 256];
  for (int i = 1; i < 256; ++i) m = fmaxf(m, x[blockIdx.x * 256 + i]);
  if (threadIdx.x == 0) out[blockIdx.x] = m;
}
