// WHY: std::sort on a copy, NaN last
// PROBLEM: sort
#include <algorithm>
#include <cmath>
#include <cstring>
extern "C" void kernel(const float* x, float* out) {
  std::memcpy(out, x, 64 * 256 * sizeof(float));
#pragma omp parallel for
  for (int r = 0; r < 64; ++r)
    std::sort(out + r * 256, out + r * 256 + 256,
              [](float a, float b) { return a < b || (std::isnan(b) && !std::isnan(a)); });
}
