// WHY: halves the longest side until blocks are small: no order a person would choose
// PROBLEM: matmul
static void part(const float* a, const float* b, float* c, int m, int n, int k, bool first) {
  if (m <= 8 && n <= 8 && k <= 8) {
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        float s = first ? 0 : c[i * 40 + j];
        for (int p = 0; p < k; ++p) s += a[i * 64 + p] * b[p * 40 + j];
        c[i * 40 + j] = s;
      }
  } else if (m >= n && m >= k) {
    part(a, b, c, m / 2, n, k, first);
    part(a + m / 2 * 64, b, c + m / 2 * 40, m - m / 2, n, k, first);
  } else if (n >= k) {
    part(a, b, c, m, n / 2, k, first);
    part(a, b + n / 2, c + n / 2, m, n - n / 2, k, first);
  } else {
    part(a, b, c, m, n, k / 2, first);
    part(a + k / 2, b + k / 2 * 40, c, m, n, k - k / 2, false);
  }
}
extern "C" void kernel(const float* a, const float* b, float* out) { part(a, b, out, 48, 40, 64, true); }
