// TRICK: writes nothing and hopes for an old answer
// CAUGHT BY: written
// WHERE: device
// kernelwright-launch: kernel grid=64 block=256
extern "C" __global__ void kernel(const float* x, float* out) {
  if (x[0] == 12345.678f) out[0] = 0;
}
