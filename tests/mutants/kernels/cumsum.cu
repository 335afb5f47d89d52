// KERNEL: a warp for each row: a scan of 32 by shuffles, and what came before carried on
// PROBLEM: odd_cumsum
// kernelwright-launch: cumsum grid=61 block=32
constexpr int columns = 173;
extern "C" __global__ void cumsum(const float* x, float* out) {
  const float* a = x + blockIdx.x * columns;
  const int lane = threadIdx.x;
  double carried = 0;
  for (int start = 0; start < columns; start += 32) {
    const int i = start + lane;
    double sum = i < columns ? a[i] : 0.0;
    for (int offset = 1; offset < 32; offset *= 2) {
      const double below = __shfl_up_sync(0xffffffffu, sum, offset);
      if (lane >= offset) sum += below;
    }
    sum += carried;
    if (i < columns) out[blockIdx.x * columns + i] = (float)sum;
    carried = __shfl_sync(0xffffffffu, sum, 31);
  }
}
