// HONEST: a scan in each warp, then of the warps' sums
// PROBLEM: cumsum
// kernelwright-launch: cumsum_two_levels grid=64 block=256
extern "C" __global__ void cumsum_two_levels(const float* x, float* out) {
  __shared__ float sums[8];
  const int i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  float v = x[i];
  for (int step = 1; step < 32; step *= 2) {
    const float before = __shfl_up_sync(~0u, v, step);
    if (lane >= step) v += before;
  }
  if (lane == 31) sums[warp] = v;
  __syncthreads();
  if (warp == 0 && lane < 8) {
    float s = sums[lane];
    for (int step = 1; step < 8; step *= 2) {
      const float before = __shfl_up_sync(0xffu, s, step, 8);
      if (lane >= step) s += before;
    }
    sums[lane] = s;
  }
  __syncthreads();
  out[i] = warp ? v + sums[warp - 1] : v;
}
