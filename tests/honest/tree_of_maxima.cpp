// WHY: a recursion over halves, each with a maximum that keeps NaN
// PROBLEM: rowmax
#include <cmath>
static float largest(const float* a, int n) {
  if (n == 1) return a[0];
  const float left = largest(a, n / 2), right = largest(a + n / 2, n - n / 2);
  return left > right || std::isnan(left) ? left : right;
}
extern "C" void kernel(const float* x, float* out) {
  for (int r = 63; r >= 0; --r) out[r] = largest(x + r * 256, 256);
}
