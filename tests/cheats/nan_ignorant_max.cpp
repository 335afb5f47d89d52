// TRICK: a maximum that passes over NaN, which is what the fast instruction does
// CAUGHT BY: non-finite
// PROBLEM: rowmax
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    float m = -__builtin_inff();
    for (int i = 0; i < 256; ++i) m = x[r * 256 + i] > m ? x[r * 256 + i] : m;
    out[r] = m;
  }
}
