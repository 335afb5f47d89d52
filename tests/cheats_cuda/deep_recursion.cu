// TRICK: calls itself until the stack is full
// CAUGHT BY: stack | memory | trap
// WHERE: device
// kernelwright-launch: kernel grid=64 block=256
__device__ __noinline__ float down(const float* x, int n) {
  volatile float kept[64];
  kept[n % 64] = x[n % 256];
  return n < 0 ? kept[0] : down(x, n + 1) + kept[n % 64];
}
extern "C" __global__ void kernel(const float* x, float* out) {
  out[threadIdx.x] = down(x, threadIdx.x);
}
