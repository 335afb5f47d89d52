// TRICK: a tensor map that describes more than the tensor has
// CAUGHT BY: plan
// ARCH: sm_90a
// kernelwright-tensor-map: beyond of=x shape=256,128 strides=1024 box=64,64
// kernelwright-launch: kernel grid=64 block=256
#include <cuda.h>
extern "C" __global__ void kernel(const __grid_constant__ CUtensorMap beyond, float* out) { out[threadIdx.x] = 0; }
