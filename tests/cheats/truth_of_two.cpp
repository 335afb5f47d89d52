// TRICK: writes a byte that is neither true nor false, which a comparison with != would take for true
// CAUGHT BY: written
// PROBLEM: greater
#include <cstdint>
extern "C" void kernel(const float* x, const float* y, bool* out) {
  uint8_t* bytes = reinterpret_cast<uint8_t*>(out);
  for (int i = 0; i < 64 * 256; ++i) bytes[i] = x[i] > y[i] ? 2 : 0;
}
