// HONEST: float maxima as ordered whole numbers, by the warp's own reduction
// PROBLEM: rowmax
// kernelwright-launch: rowmax_reduce grid=8 block=32,8
#include <math.h>
extern "C" __global__ void rowmax_reduce(const float* x, float* out) {
  const int row = blockIdx.x * 8 + threadIdx.y;
  unsigned best = 0;
  bool nan = false;
  for (int i = threadIdx.x; i < 256; i += 32) {
    const float v = x[row * 256 + i];
    const unsigned bits = __float_as_uint(v);
    nan |= isnan(v);
    best = max(best, bits >> 31 ? ~bits : bits | 0x80000000u);
  }
  best = __reduce_max_sync(0xffffffffu, best);
  nan = __any_sync(0xffffffffu, nan);
  if (threadIdx.x == 0) out[row] = nan ? NAN : __uint_as_float(best >> 31 ? best & 0x7fffffffu : ~best);
}
