// WHY: adds truth values
// PROBLEM: counts
#include <cstdint>
extern "C" void kernel(const float* x, int64_t* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    int n = 0;
    for (int i = 0; i < 256; ++i) n += x[r * 256 + i] > 0;
    out[r] = n;
  }
}
