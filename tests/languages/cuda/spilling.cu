// TENSOR: x input float32 65536
// TENSOR: out output float32 65536
// kernelwright-launch: many grid=8 block=256
// kernelwright-options: max_registers=32
// Sixty-four values alive at once and thirty-two registers: right, and slow.
extern "C" __global__ void many(const float* x, float* out) {
  float v[32];
  int at = blockIdx.x * 256 + threadIdx.x;
#pragma unroll
  for (int i = 0; i < 32; ++i) v[i] = x[at + i * 2048];
#pragma unroll
  for (int r = 1; r < 8; ++r)
#pragma unroll
    for (int i = 0; i < 32; ++i) v[i] = fmaf(v[i], v[(i * 5 + r) % 32], v[(i + r) % 32]);
#pragma unroll
  for (int i = 0; i < 32; ++i) out[at + i * 2048] = v[i];
}
