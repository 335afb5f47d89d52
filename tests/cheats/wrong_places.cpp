// TRICK: gives the right values and the places of others
// CAUGHT BY: accuracy
// PROBLEM: topk
#include <algorithm>
#include <cstdint>
#include <cstring>
extern "C" void kernel(const float* x, float* values, int64_t* indices) {
  for (int r = 0; r < 64; ++r) {
    float a[256];
    std::memcpy(a, x + r * 256, sizeof a);
    std::partial_sort(a, a + 8, a + 256, [](float u, float v) { return u > v; });
    for (int i = 0; i < 8; ++i) {
      values[r * 8 + i] = a[i];
      indices[r * 8 + i] = i;
    }
  }
}
