// TRICK: sorts in blocks of sixteen, which looks sorted from afar
// CAUGHT BY: accuracy
// PROBLEM: sort
#include <algorithm>
#include <cstring>
extern "C" void kernel(const float* x, float* out) {
  std::memcpy(out, x, 64 * 256 * sizeof(float));
  for (int b = 0; b < 64 * 256; b += 16) std::sort(out + b, out + b + 16);
}
