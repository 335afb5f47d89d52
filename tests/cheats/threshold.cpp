// TRICK: looks only at what is larger than 1.2, as the eight best of 256 normal numbers are
// CAUGHT BY: accuracy | non-finite
// PROBLEM: topk
#include <cstdint>
extern "C" void kernel(const float* x, float* values, int64_t* indices) {
  for (int r = 0; r < 64; ++r) {
    int kept = 0;
    float* v = values + r * 8;
    int64_t* at = indices + r * 8;
    for (int i = 0; i < 8; ++i) v[i] = at[i] = 0;
    for (int i = 0; i < 256; ++i) {
      const float e = x[r * 256 + i];
      if (!(e > 1.2f) || (kept == 8 && !(e > v[7]))) continue;
      int j = kept < 8 ? kept++ : 7;
      for (; j > 0 && e > v[j - 1]; --j) {
        v[j] = v[j - 1];
        at[j] = at[j - 1];
      }
      v[j] = e;
      at[j] = i;
    }
  }
}
