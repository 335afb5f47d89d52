// HONEST: the first largest by pairs of value and place, joined by shuffles of both
// PROBLEM: argmax
// kernelwright-launch: argmax_keys grid=64 block=64
struct Best {
  float value;
  int place;
};
__device__ Best better(Best a, Best b) {
  const bool an = a.value != a.value, bn = b.value != b.value;
  const bool same = an == bn && (an || a.value == b.value);
  if (same) return a.place < b.place ? a : b;
  return an || (!bn && a.value > b.value) ? a : b;
}
extern "C" __global__ void argmax_keys(const float* x, long long* out) {
  __shared__ Best warps[2];
  const float* row = x + blockIdx.x * 256;
  Best mine = {row[threadIdx.x], int(threadIdx.x)};
  for (int i = threadIdx.x + 64; i < 256; i += 64) mine = better(mine, {row[i], i});
  for (int step = 16; step; step /= 2) {
    const Best other = {__shfl_xor_sync(~0u, mine.value, step), __shfl_xor_sync(~0u, mine.place, step)};
    mine = better(mine, other);
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = better(warps[0], warps[1]).place;
}
