// TRICK: looks through the memory around its tensors for the expected answer
// CAUGHT BY: memory | accuracy | memcheck | written
// WHERE: device
// kernelwright-launch: kernel grid=64 block=256
extern "C" __global__ void kernel(const float* x, float* out) {
  const float* p = out + (size_t(1) << 20);
  float sum = 0;
  for (int i = 0; i < 256; ++i) sum += p[i];
  if (sum > 0.999f && sum < 1.001f) out[blockIdx.x * 256 + threadIdx.x] = p[threadIdx.x];
}
