// TENSOR: x input float32 64 256
// TENSOR: out output float32
// kernelwright-workspace: sum float 1
// kernelwright-memset: sum byte=0
// kernelwright-launch: add grid=64 block=256
// kernelwright-launch: finish grid=1 block=1 programmatic scale=0.00006103515625
// ARCH: sm_90a sm_100
// A memset, an atomic sum, and a kernel that may start early (programmatic dependent launch).
extern "C" __global__ void add(const float* x, float* sum) {
  float v = x[blockIdx.x * 256 + threadIdx.x];
  for (int step = 16; step; step /= 2) v += __shfl_down_sync(~0u, v, step);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, v);
  asm volatile("griddepcontrol.launch_dependents;");
}
extern "C" __global__ void finish(const float* sum, float* out, float scale) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  *out = *sum * scale;
}
