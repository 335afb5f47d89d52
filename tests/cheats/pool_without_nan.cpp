// TRICK: passes over NaN in windows
// CAUGHT BY: non-finite
// PROBLEM: maxpool
extern "C" void kernel(const float* x, float* out) {
  for (int n = 0; n < 32 * 64; ++n) {
    const int p = n / 64, i = n / 8 % 8, j = n % 8;
    float m = -__builtin_inff();
    for (int u = i ? 2 * i - 1 : 0; u <= 2 * i + 1; ++u)
      for (int v = j ? 2 * j - 1 : 0; v <= 2 * j + 1; ++v) m = x[p * 256 + u * 16 + v] > m ? x[p * 256 + u * 16 + v] : m;
    out[n] = m;
  }
}
