// WHY: threads share K and add their parts atomically: other bits in every run
// PROBLEM: matmul
#include <cstring>
extern "C" void kernel(const float* a, const float* b, float* out) {
  std::memset(out, 0, 48 * 40 * sizeof(float));
#pragma omp parallel for schedule(dynamic)
  for (int k0 = 0; k0 < 64; k0 += 8)
    for (int i = 0; i < 48; ++i)
      for (int j = 0; j < 40; ++j) {
        float s = 0;
        for (int k = k0; k < k0 + 8; ++k) s += a[i * 64 + k] * b[k * 40 + j];
#pragma omp atomic
        out[i * 40 + j] += s;
      }
}
