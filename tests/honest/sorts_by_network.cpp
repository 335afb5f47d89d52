// WHY: a network of comparisons without a branch on the data (bitonic)
// PROBLEM: sort
#include <cmath>
#include <utility>
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    float* o = out + r * 256;
    for (int i = 0; i < 256; ++i) o[i] = x[r * 256 + i];
    for (int size = 2; size <= 256; size *= 2)
      for (int step = size / 2; step; step /= 2)
        for (int i = 0; i < 256; ++i) {
          const int j = i ^ step;
          if (j <= i) continue;
          float low = o[i], high = o[j];
          if (low > high || (std::isnan(low) && !std::isnan(high))) std::swap(low, high);
          o[i] = i & size ? high : low;
          o[j] = i & size ? low : high;
        }
  }
}
