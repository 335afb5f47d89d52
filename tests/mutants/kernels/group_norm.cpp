// KERNEL: one group of three channels after the other
// PROBLEM: odd_groupnorm
#include <math.h>
extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
  constexpr int area = 7 * 11, channels = 3, count = channels * area;
#pragma omp parallel for
  for (int g = 0; g < 5 * 4; ++g) {
    const float* a = x + g * count;
    double sum = 0, squares = 0;
    for (int i = 0; i < count; ++i) sum += a[i];
    const double mean = sum / count;
    for (int i = 0; i < count; ++i) squares += (a[i] - mean) * (a[i] - mean);
    const double scale = 1.0 / sqrt(squares / count + 1e-5);
    for (int i = 0; i < count; ++i) {
      const int c = g % 4 * channels + i / area;
      out[g * count + i] = (a[i] - mean) * scale * weight[c] + bias[c];
    }
  }
}
