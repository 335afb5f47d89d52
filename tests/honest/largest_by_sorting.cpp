// WHY: sorts places by value with the standard library
// PROBLEM: topk
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
extern "C" void kernel(const float* x, float* values, int64_t* indices) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    int64_t order[256];
    std::iota(order, order + 256, 0);
    const auto before = [a](int64_t i, int64_t j) {
      if (std::isnan(a[i]) || std::isnan(a[j])) return std::isnan(a[i]) && (!std::isnan(a[j]) || i < j);
      return a[i] > a[j] || (a[i] == a[j] && i < j);
    };
    std::partial_sort(order, order + 8, order + 256, before);
    for (int i = 0; i < 8; ++i) {
      indices[r * 8 + i] = order[i];
      values[r * 8 + i] = a[order[i]];
    }
  }
}
