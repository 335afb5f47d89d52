// TRICK: a kernel of doubles for tensors of floats
// CAUGHT BY: type
// kernelwright-launch: kernel grid=64 block=256
extern "C" __global__ void kernel(const double* x, double* out) { out[threadIdx.x] = x[threadIdx.x]; }
