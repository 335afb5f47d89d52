// WHY: in float32 with lanes and a reduction over threads
// PROBLEM: cross_entropy
#include <cmath>
#include <cstdint>
extern "C" void kernel(const float* x, const int64_t* target, float* out) {
  float loss = 0;
#pragma omp parallel for reduction(+ : loss)
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 100;
    float m = a[0], lanes[4] = {};
    for (int i = 1; i < 100; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 100; ++i) lanes[i % 4] += std::exp(a[i] - m);
    loss += std::log((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) - (a[target[r]] - m);
  }
  *out = loss / 64;
}
