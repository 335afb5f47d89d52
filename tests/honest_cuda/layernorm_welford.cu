// HONEST: mean and variance by Welford's method, joined down a warp
// PROBLEM: layernorm
// kernelwright-launch: layernorm_welford grid=64 block=32
extern "C" __global__ void layernorm_welford(const float* x, const float* weight, const float* bias, float* out) {
  const float* row = x + blockIdx.x * 256;
  float mean = 0, square = 0, n = 0;
  for (int i = threadIdx.x; i < 256; i += warpSize) {
    const float d = row[i] - mean;
    mean += d / ++n;
    square += d * (row[i] - mean);
  }
  for (int step = 16; step; step >>= 1) {
    const float om = __shfl_down_sync(0xffffffff, mean, step), os = __shfl_down_sync(0xffffffff, square, step);
    const float d = om - mean;
    mean = (mean + om) * 0.5f;
    square += os + d * d * n * 0.5f;
    n *= 2;
  }
  mean = __shfl_sync(0xffffffff, mean, 0);
  const float scale = rsqrtf(__shfl_sync(0xffffffff, square, 0) / 256 + 1e-5f);
  for (int i = threadIdx.x; i < 256; i += 32) out[blockIdx.x * 256 + i] = fmaf((row[i] - mean) * scale, weight[i], bias[i]);
}
