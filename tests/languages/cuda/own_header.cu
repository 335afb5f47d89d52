// TENSOR: x input bfloat16 4096
// TENSOR: out output bfloat16 4096
// kernelwright-launch: negate grid=8 block=256
#include "parts/pack.cuh"
extern "C" __global__ void negate(const __nv_bfloat16* x, __nv_bfloat16* out) {
  int i = blockIdx.x * 256 + threadIdx.x;
  pair_at(out, i) = __hneg2(pair_at(x, i));
}
