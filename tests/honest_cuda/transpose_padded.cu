// HONEST: through a padded tile, eight rows of threads
// PROBLEM: transpose
// kernelwright-launch: transpose_padded grid=8,2 block=32,8
extern "C" __global__ void transpose_padded(const float* x, float* out) {
  __shared__ float tile[32][32 + 1];
  const int c = blockIdx.x * 32, r = blockIdx.y * 32;
  for (int i = threadIdx.y; i < 32; i += 8) tile[i][threadIdx.x] = x[(r + i) * 256 + c + threadIdx.x];
  __syncthreads();
  for (int i = threadIdx.y; i < 32; i += 8) out[(c + i) * 64 + r + threadIdx.x] = tile[threadIdx.x][i];
}
