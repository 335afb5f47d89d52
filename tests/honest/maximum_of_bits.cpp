// WHY: compares floats as whole numbers
// PROBLEM: rowmax
#include <cstdint>
#include <cstring>
static int32_t ordered(float v) {
  int32_t bits;
  std::memcpy(&bits, &v, 4);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fc00000;  // NaN, of whatever sign, above everything
  return bits < 0 ? bits ^ 0x7fffffff : bits;
}
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    int32_t m = ordered(x[r * 256]);
    for (int i = 1; i < 256; ++i) m = m < ordered(x[r * 256 + i]) ? ordered(x[r * 256 + i]) : m;
    m = m < 0 ? m ^ 0x7fffffff : m;
    std::memcpy(out + r, &m, 4);
  }
}
