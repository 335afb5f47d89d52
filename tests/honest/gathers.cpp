// WHY: reads where the indices say, in parallel
// PROBLEM: gather
#include <cstdint>
extern "C" void kernel(const float* x, const int64_t* index, float* out) {
#pragma omp parallel for collapse(2)
  for (int r = 0; r < 64; ++r)
    for (int i = 0; i < 16; ++i) out[r * 16 + i] = x[r * 256 + index[r * 16 + i]];
}
