// TRICK: leaves out the table's last row, which few draws of get_inputs ask for
// CAUGHT BY: accuracy
// PROBLEM: lookup
#include <cstdint>
extern "C" void kernel(const int64_t* i, const float* table, float* out) {
  for (int r = 0; r < 64; ++r)
    for (int c = 0; c < 32; ++c) out[r * 32 + c] = i[r] == 499 ? 0.0f : table[i[r] * 32 + c];
}
