// WHY: truth values as bytes of one bit
// PROBLEM: greater
#include <cstdint>
extern "C" void kernel(const float* x, const float* y, bool* out) {
  uint8_t* bytes = reinterpret_cast<uint8_t*>(out);
#pragma omp parallel for simd
  for (int i = 0; i < 64 * 256; ++i) bytes[i] = uint8_t(x[i] > y[i]);
}
