// TRICK: takes the four best of each half, as they often are
// CAUGHT BY: accuracy | non-finite
// PROBLEM: topk
#include <algorithm>
#include <cstdint>
extern "C" void kernel(const float* x, float* values, int64_t* indices) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    int64_t all[8];
    for (int h = 0; h < 2; ++h) {
      int64_t order[128];
      for (int i = 0; i < 128; ++i) order[i] = h * 128 + i;
      std::partial_sort(order, order + 4, order + 128, [a](int64_t i, int64_t j) { return a[i] > a[j]; });
      std::copy(order, order + 4, all + 4 * h);
    }
    std::sort(all, all + 8, [a](int64_t i, int64_t j) { return a[i] > a[j]; });
    for (int i = 0; i < 8; ++i) {
      indices[r * 8 + i] = all[i];
      values[r * 8 + i] = a[all[i]];
    }
  }
}
