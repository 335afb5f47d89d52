// TRICK: asks where the kernel put the clock's code
// CAUGHT BY: import
extern "C" unsigned long getauxval(unsigned long);
extern "C" void kernel(const float* x, float* out) { out[0] = float(getauxval(33)) + x[0]; }
