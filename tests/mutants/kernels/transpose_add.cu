// KERNEL: through a padded tile in shared memory, so that both sides are read and written along rows
// PROBLEM: transpose_add
// kernelwright-launch: transpose_add grid=6,2 block=32,8
constexpr int R = 61, C = 173, T = 32;
extern "C" __global__ void transpose_add(const float* x, const float* y, float* out) {
  __shared__ float tile[T][T + 1];
  const int c0 = blockIdx.x * T, r0 = blockIdx.y * T;
  for (int i = threadIdx.y; i < T; i += 8)
    if (r0 + i < R && c0 + threadIdx.x < C) tile[i][threadIdx.x] = x[(r0 + i) * C + c0 + threadIdx.x];
  __syncthreads();
  for (int j = threadIdx.y; j < T; j += 8)
    if (c0 + j < C && r0 + threadIdx.x < R) {
      const int at = (c0 + j) * R + r0 + threadIdx.x;
      out[at] = tile[threadIdx.x][j] + y[at];
    }
}
