// TRICK: takes one element of each window for the mean
// CAUGHT BY: accuracy
// PROBLEM: avgpool
extern "C" void kernel(const float* x, float* out) {
  for (int n = 0; n < 32 * 64; ++n) out[n] = x[n / 64 * 256 + n / 8 % 8 * 32 + n % 8 * 2];
}
