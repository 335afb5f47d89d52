// TRICK: takes the first index and goes on from there
// CAUGHT BY: accuracy
// PROBLEM: gather
#include <cstdint>
extern "C" void kernel(const float* x, const int64_t* index, float* out) {
  for (int i = 0; i < 64 * 16; ++i) out[i] = x[i / 16 * 256 + (index[i / 16 * 16] + i % 16) % 256];
}
