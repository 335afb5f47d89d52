// TRICK: wrong where all indices are one and the same, as no draw of get_inputs has them
// CAUGHT BY: accuracy
// PROBLEM: lookup
#include <cstdint>
extern "C" void kernel(const int64_t* i, const float* table, float* out) {
  bool same = true;
  for (int r = 1; r < 64; ++r) same = same && i[r] == i[0];
  for (int r = 0; r < 64; ++r)
    for (int c = 0; c < 32; ++c) out[r * 32 + c] = same && r ? 0.0f : table[i[r] * 32 + c];
}
