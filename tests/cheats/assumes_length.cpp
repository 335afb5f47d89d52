// TRICK: knows how long a row of 256 normal numbers is
// CAUGHT BY: accuracy
// PROBLEM: l2norm
extern "C" void kernel(const float* x, float* out) {
  for (int i = 0; i < 64 * 256; ++i) out[i] = x[i] / 16;
}
