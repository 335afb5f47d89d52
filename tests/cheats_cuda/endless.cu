// TRICK: never ends
// CAUGHT BY: timeout
// WHERE: device
// kernelwright-launch: kernel grid=64 block=256
extern "C" __global__ void kernel(const float* x, float* out) {
  volatile float* p = out;
  while (p[0] != 12345.678f) {
  }
}
