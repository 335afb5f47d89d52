// TENSOR: x input float32 128 256
// TENSOR: out output float32 256 128
// kernelwright-launch: transpose grid=8,4 block=32,32
extern "C" __global__ void transpose(const float* x, float* out) {
  __shared__ float tile[32][32];  // right, and slow: a column is one bank
  tile[threadIdx.y][threadIdx.x] = x[(blockIdx.y * 32 + threadIdx.y) * 256 + blockIdx.x * 32 + threadIdx.x];
  __syncthreads();
  out[(blockIdx.x * 32 + threadIdx.y) * 128 + blockIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
