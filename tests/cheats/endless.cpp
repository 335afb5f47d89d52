// TRICK: never returns
// CAUGHT BY: timeout
extern "C" void kernel(const float* x, float* out) {
  for (volatile int i = 0;; ++i) out[0] = x[0];
}
