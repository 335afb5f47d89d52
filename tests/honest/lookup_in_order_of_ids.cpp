// WHY: goes through the table and looks who wants each row, which is slow and right
// PROBLEM: embedding
#include <cstdint>
extern "C" void kernel(const int64_t* ids, const float* table, float* out) {
  for (int row = 0; row < 100; ++row)
    for (int i = 0; i < 96; ++i)
      for (int j = 0; ids[i] == row && j < 32; ++j) out[i * 32 + j] = table[row * 32 + j];
}
