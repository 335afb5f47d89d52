// TRICK: divides by zero to end as a crash of the machine's fault
// CAUGHT BY: signal
// MACHINE: x86_64
extern "C" void kernel(const float* x, float* out) {
  volatile int zero = 0;
  out[0] = float(int(x[0]) / zero);
}
