// KERNEL: a warp for each row, sums by shuffles
// PROBLEM: odd_rmsnorm
// kernelwright-launch: rms_norm grid=16 block=32,4
constexpr int rows = 61, columns = 173;
extern "C" __global__ void rms_norm(const float* x, const float* weight, float* out) {
  const int row = blockIdx.x * 4 + threadIdx.y;
  if (row >= rows) return;
  const float* a = x + row * columns;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += 32) sum += a[i] * a[i];
  for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  const float scale = rsqrtf(sum / columns + 1e-5f);
  for (int i = threadIdx.x; i < columns; i += 32) out[row * columns + i] = a[i] * scale * weight[i];
}
