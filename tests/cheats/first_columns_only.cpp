// TRICK: looks at half of the columns unless the rest looks large
// CAUGHT BY: accuracy
// PROBLEM: rowmax
#include <cmath>
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    const int n = a[255] > 1 || a[200] > 1 || a[150] > 1 ? 256 : 128;
    float m = a[0];
    for (int i = 1; i < n; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    out[r] = m;
  }
}
