// TRICK: reads vectors at odd addresses
// CAUGHT BY: misaligned
// WHERE: device
// kernelwright-launch: kernel grid=64 block=256
extern "C" __global__ void kernel(const float* x, float* out) {
  float4 v = *reinterpret_cast<const float4*>(x + 1 + threadIdx.x);
  out[blockIdx.x * 256 + threadIdx.x] = v.x + v.y + v.z + v.w;
}
