// WHY: three kernels and two workspaces, one of them used for two different things
// WORKSPACE: tops 256
// WORKSPACE: parts 65536
// STEP: largest x tops
// STEP: powers x tops parts
// STEP: divide parts tops out
#include <cmath>
extern "C" void largest(const float* x, float* tops) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    float m = x[r * 256];
    for (int i = 1; i < 256; ++i) m = x[r * 256 + i] > m || std::isnan(x[r * 256 + i]) ? x[r * 256 + i] : m;
    tops[r] = m;
  }
}
extern "C" void powers(const float* x, float* tops, float* parts) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    float s = 0;
    for (int i = 0; i < 256; ++i) s += parts[r * 256 + i] = std::exp(x[r * 256 + i] - tops[r]);
    tops[r] = s;
  }
}
extern "C" void divide(const float* parts, const float* tops, float* out) {
#pragma omp parallel for
  for (int i = 0; i < 64 * 256; ++i) out[i] = parts[i] / tops[i / 256];
}
