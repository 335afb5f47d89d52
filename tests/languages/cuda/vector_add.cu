// TENSOR: a input float32 4096
// TENSOR: b input float32 4096
// TENSOR: out output float32 4096
// kernelwright-launch: add grid=4 block=256 n=4096
extern "C" __global__ void add(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int n) {
  int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i + 3 < n) {
    float4 x = *reinterpret_cast<const float4*>(a + i), y = *reinterpret_cast<const float4*>(b + i);
    *reinterpret_cast<float4*>(out + i) = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
  }
}
