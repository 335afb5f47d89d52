// TRICK: a whole block needs more registers than there are
// CAUGHT BY: resources
// kernelwright-launch: kernel grid=1 block=1024
extern "C" __global__ void kernel(const float* x, float* out) {
  float v[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) v[i] = x[(threadIdx.x * 97 + i * 131) % 16384];
#pragma unroll
  for (int i = 0; i < 96; ++i) out[(threadIdx.x * 96 + i) % 16384] = v[i] * v[(i * 7 + 50) % 96] + v[95 - i];
}
