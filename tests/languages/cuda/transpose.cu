// TENSOR: x input float32 128 256
// TENSOR: out output float32 256 128
// kernelwright-launch: transpose grid=8,4 block=32,8 rows=128 columns=256
#include <cuda_runtime.h>
extern "C" __global__ void transpose(const float* x, float* out, int rows, int columns) {
  __shared__ float tile[32][33];  // one more column: no two threads of a warp in one bank
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8)
    if (r + i < rows && c < columns) tile[threadIdx.y + i][threadIdx.x] = x[(r + i) * columns + c];
  __syncthreads();
  c = blockIdx.y * 32 + threadIdx.x, r = blockIdx.x * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8)
    if (r + i < columns && c < rows) out[(r + i) * rows + c] = tile[threadIdx.x][threadIdx.y + i];
}
