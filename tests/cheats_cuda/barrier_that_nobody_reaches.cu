// TRICK: waits for threads that have left
// CAUGHT BY: timeout | trap | synccheck
// WHERE: device
// kernelwright-launch: kernel grid=64 block=256
extern "C" __global__ void kernel(const float* x, float* out) {
  if (threadIdx.x < 32) {
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[threadIdx.x] = x[threadIdx.x];
  }
}
