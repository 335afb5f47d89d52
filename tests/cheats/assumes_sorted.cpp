// TRICK: takes the last element when a row looks sorted
// CAUGHT BY: accuracy
// PROBLEM: rowmax
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float m = a[255];
    if (!(a[0] < a[128] && a[128] < a[255]))
      for (int i = 0; i < 255; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    out[r] = m;
  }
}
