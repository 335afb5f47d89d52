// KERNEL: vectors of four where a row is aligned, single elements before and after; NaN wins
// PROBLEM: odd_rowmax
// kernelwright-launch: rowmax grid=61 block=64
#include <math.h>
constexpr int columns = 173;
__device__ float larger(float a, float b) { return a > b || isnan(a) ? a : b; }
extern "C" __global__ void rowmax(const float* x, float* out) {
  __shared__ float shared[2];
  const float* a = x + blockIdx.x * columns;
  const int before = (4 - blockIdx.x * columns % 4) % 4, fours = (columns - before) / 4;
  float m = -INFINITY;
  for (int i = threadIdx.x; i < before; i += 64) m = larger(a[i], m);
  for (int i = threadIdx.x; i < fours; i += 64) {
    const float4 v = *(const float4*)(a + before + i * 4);
    m = larger(larger(larger(larger(v.x, m), v.y), v.z), v.w);
  }
  for (int i = before + fours * 4 + threadIdx.x; i < columns; i += 64) m = larger(a[i], m);
  for (int offset = 16; offset > 0; offset /= 2) m = larger(__shfl_down_sync(0xffffffffu, m, offset), m);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = m;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = larger(shared[0], shared[1]);
}
