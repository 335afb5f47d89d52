// WHY: moves rows of a table as bytes
// PROBLEM: embedding
#include <cstdint>
#include <cstring>
extern "C" void kernel(const int64_t* ids, const float* table, float* out) {
  for (int i = 0; i < 96; ++i) std::memcpy(out + i * 32, table + ids[i] * 32, 32 * sizeof(float));
}
