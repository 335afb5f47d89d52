// HONEST: tiles of both matrices in shared memory, guarded at the edges
// PROBLEM: matmul
// kernelwright-launch: matmul_tiles grid=3,3 block=16,16
extern "C" __global__ void matmul_tiles(const float* a, const float* b, float* out) {
  constexpr int M = 48, K = 64, N = 40, T = 16;
  __shared__ float left[T][T], right[T][T];
  const int row = blockIdx.y * T + threadIdx.y, column = blockIdx.x * T + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < K; k += T) {
    left[threadIdx.y][threadIdx.x] = row < M ? a[row * K + k + threadIdx.x] : 0;
    right[threadIdx.y][threadIdx.x] = column < N ? b[(k + threadIdx.y) * N + column] : 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < T; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
    __syncthreads();
  }
  if (row < M && column < N) out[row * N + column] = sum;
}
