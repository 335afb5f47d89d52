// KERNEL: rows by their numbers, eight elements at a time and then the rest
// PROBLEM: rows_by_number
#include <stdint.h>
extern "C" void kernel(const int64_t* index, const float* x, float* out) {
  constexpr int n = 173;
#pragma omp parallel for
  for (int i = 0; i < 251; ++i) {
    const float* row = x + index[i] * n;
    float* o = out + (int64_t)i * n;
    int j = 0;
    for (; j + 8 <= n; j += 8)
      for (int k = 0; k < 8; ++k) o[j + k] = row[j + k];
    for (; j < n; ++j) o[j] = row[j];
  }
}
