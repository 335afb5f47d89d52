// WHY: skips rows without anything to see, and elements that are masked
// PROBLEM: masked_softmax
#include <cmath>
extern "C" void kernel(const float* x, const bool* mask, float* out) {
#pragma omp parallel for schedule(dynamic)
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    const bool* hidden = mask + r * 256;
    float *o = out + r * 256, m = -INFINITY, s = 0;
    int seen = 0;
    for (int i = 0; i < 256; ++i) {
      if (hidden[i]) continue;
      ++seen;
      m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    }
    if (!seen || m == -INFINITY) {
      for (int i = 0; i < 256; ++i) o[i] = NAN;
      continue;
    }
    for (int i = 0; i < 256; ++i) s += o[i] = hidden[i] ? 0.0f : std::exp(a[i] - m);
    for (int i = 0; i < 256; ++i) o[i] = hidden[i] && !std::isnan(s) ? 0.0f : o[i] / s;
  }
}
