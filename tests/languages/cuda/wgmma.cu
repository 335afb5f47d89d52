// ARCH: sm_90a
// TENSOR: a input bfloat16 64 16
// TENSOR: b input bfloat16 8 16
// TENSOR: out output float32 64 8
// kernelwright-launch: gemm grid=1 block=128
// out = a times b-transposed, one wgmma of 64x8x16 from shared memory, laid out without swizzle: 8x8 core matrices.
#include <cuda_bf16.h>
#include <cstdint>
__device__ uint64_t descriptor(const void* shared, uint32_t leading, uint32_t stride) {
  uint64_t at = static_cast<uint64_t>(__cvta_generic_to_shared(shared));
  return (at & 0x3ffff) >> 4 | uint64_t(leading >> 4) << 16 | uint64_t(stride >> 4) << 32;
}
extern "C" __global__ void __launch_bounds__(128) gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, float* out) {
  __shared__ alignas(128) __nv_bfloat16 as[64 * 16], bs[8 * 16];
  // Core matrices of 8 rows by 8 columns are contiguous: along k first, then along m.
  for (int i = threadIdx.x; i < 64 * 16; i += 128) {
    int r = i / 16, c = i % 16;
    as[(r / 8 * 2 + c / 8) * 64 + r % 8 * 8 + c % 8] = a[i];
  }
  {
    int r = threadIdx.x / 16, c = threadIdx.x % 16;
    bs[c / 8 * 64 + r * 8 + c % 8] = b[threadIdx.x];
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float d[4] = {0, 0, 0, 0};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, 0, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(descriptor(as, 128, 256)), "l"(descriptor(bs, 128, 256)));
  asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory");
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = warp * 16 + lane / 4, c = lane % 4 * 2;
  out[r * 8 + c] = d[0], out[r * 8 + c + 1] = d[1];
  out[(r + 8) * 8 + c] = d[2], out[(r + 8) * 8 + c + 1] = d[3];
}
