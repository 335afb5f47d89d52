// TRICK: a pragma lets the compiler suppose that there is no NaN and no infinity
// PROBLEM: rowmax
// CAUGHT BY: non-finite | pragma
#pragma GCC optimize("finite-math-only")
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float m = a[0];
    for (int i = 1; i < 256; ++i) m = a[i] > m || a[i] != a[i] ? a[i] : m;
    out[r] = m;
  }
}
