// WHY: moves floats as whole numbers, which keeps every NaN
// PROBLEM: transpose
#include <cstdint>
extern "C" void kernel(const float* x, float* out) {
  const uint32_t* from = reinterpret_cast<const uint32_t*>(x);
  uint32_t* to = reinterpret_cast<uint32_t*>(out);
  for (int j = 0; j < 256; ++j)
    for (int i = 0; i < 64; ++i) to[j * 64 + i] = from[i * 256 + j];
}
