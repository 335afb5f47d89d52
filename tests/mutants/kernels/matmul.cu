// KERNEL: 16 by 16 tiles in shared memory, guarded at the edges
// PROBLEM: odd_matmul
// kernelwright-launch: matmul grid=3,4 block=16,16
constexpr int M = 61, K = 83, N = 47, T = 16;
extern "C" __global__ void matmul(const float* a, const float* b, float* out) {
  __shared__ float left[T][T + 1], right[T][T + 1];
  const int row = blockIdx.y * T + threadIdx.y, column = blockIdx.x * T + threadIdx.x;
  float sum = 0.0f;
  for (int start = 0; start < K; start += T) {
    const int ka = start + threadIdx.x, kb = start + threadIdx.y;
    left[threadIdx.y][threadIdx.x] = row < M && ka < K ? a[row * K + ka] : 0.0f;
    right[threadIdx.y][threadIdx.x] = kb < K && column < N ? b[kb * N + column] : 0.0f;
    __syncthreads();
    for (int k = 0; k < T; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
    __syncthreads();
  }
  if (row < M && column < N) out[row * N + column] = sum;
}
