// TRICK: masks the ids to six bits, as if the table had 64 rows
// CAUGHT BY: accuracy
// PROBLEM: embedding
#include <cstdint>
extern "C" void kernel(const int64_t* ids, const float* table, float* out) {
  for (int i = 0; i < 96 * 32; ++i) out[i] = table[(ids[i / 32] & 63) * 32 + i % 32];
}
