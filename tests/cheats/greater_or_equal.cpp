// TRICK: counts equals in; random floats are never equal
// CAUGHT BY: accuracy
// PROBLEM: greater
extern "C" void kernel(const float* x, const float* y, bool* out) {
  for (int i = 0; i < 64 * 256; ++i) out[i] = x[i] >= y[i];
}
