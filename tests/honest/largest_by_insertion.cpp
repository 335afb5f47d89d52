// WHY: keeps the eight best so far in order; equal values in the order of their places
// PROBLEM: topk
#include <cmath>
#include <cstdint>
static bool before(float a, float b) { return a > b || (std::isnan(a) && !std::isnan(b)); }
extern "C" void kernel(const float* x, float* values, int64_t* indices) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    float* v = values + r * 8;
    int64_t* at = indices + r * 8;
    int kept = 0;
    for (int i = 0; i < 256; ++i) {
      const float e = x[r * 256 + i];
      if (kept == 8 && !before(e, v[7])) continue;
      int j = kept < 8 ? kept++ : 7;
      for (; j > 0 && before(e, v[j - 1]); --j) {
        v[j] = v[j - 1];
        at[j] = at[j - 1];
      }
      v[j] = e;
      at[j] = i;
    }
  }
}
