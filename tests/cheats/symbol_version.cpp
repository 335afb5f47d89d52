// TRICK: binds a name to another version of the C library
// CAUGHT BY: asm
asm(".symver quiet, system@GLIBC_2.2.5");
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
