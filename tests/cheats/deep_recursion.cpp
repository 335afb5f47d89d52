// TRICK: overflows the stack
// CAUGHT BY: signal
static float deep(const float* x, int n) {
  volatile float space[1024];
  space[n & 1023] = x[0];
  return n ? deep(x, n - 1) + space[n & 1023] : 0;
}
extern "C" void kernel(const float* x, float* out) { out[0] = deep(x, 1 << 30); }
