// TENSOR: a input float16 64 64
// TENSOR: b input float16 64 64
// TENSOR: out output float32 64 64
// kernelwright-launch: gemm grid=4,8 block=32
// out = a times b-transposed: one warp for each 16x8 tile, float32 accumulators in registers.
#include <cuda_fp16.h>
#include <stdint.h>
constexpr int K = 64, N = 64;
extern "C" __global__ void gemm(const half* __restrict__ a, const half* __restrict__ b, float* __restrict__ out) {
  int lane = threadIdx.x, group = lane / 4, inside = lane % 4;
  const half* ar = a + (blockIdx.x * 16 + group) * K + inside * 2;
  const half* br = b + (blockIdx.y * 8 + group) * K + inside * 2;
  float d[4] = {0, 0, 0, 0};
#pragma unroll
  for (int k = 0; k < K; k += 16) {
    uint32_t a0 = *reinterpret_cast<const uint32_t*>(ar + k), a1 = *reinterpret_cast<const uint32_t*>(ar + 8 * K + k);
    uint32_t a2 = *reinterpret_cast<const uint32_t*>(ar + k + 8);
    uint32_t a3 = *reinterpret_cast<const uint32_t*>(ar + 8 * K + k + 8);
    uint32_t b0 = *reinterpret_cast<const uint32_t*>(br + k), b1 = *reinterpret_cast<const uint32_t*>(br + k + 8);
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
  float* o = out + (blockIdx.x * 16 + group) * N + blockIdx.y * 8 + inside * 2;
  o[0] = d[0], o[1] = d[1], o[8 * N] = d[2], o[8 * N + 1] = d[3];
}
