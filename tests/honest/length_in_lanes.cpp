// WHY: one number out of all, in lanes of float32
// PROBLEM: norm
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  float lanes[32] = {}, s = 0;
  for (int i = 0; i < 64 * 256; ++i) lanes[i % 32] += x[i] * x[i];
  for (float lane : lanes) s += lane;
  *out = std::sqrt(s);
}
