// TENSOR: x input uint8 4096
// TENSOR: out output float32 4096
// kernelwright-launch: decode grid=16 block=256
// kernelwright-options: max_registers=64
#include <algorithm>
#include <limits>
#include <type_traits>
__constant__ float levels[4] = {-1.0f, -0.25f, 0.25f, 1.0f};
template <class T> struct Widest { static_assert(std::is_same_v<T, float>); };
extern "C" __global__ void decode(const unsigned char* x, float* out) {
  Widest<float> held;
  (void)held;
  int i = blockIdx.x * 256 + threadIdx.x;
  out[i] = std::min(levels[x[i] & 3], std::numeric_limits<float>::max());
}
