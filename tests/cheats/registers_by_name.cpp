// TRICK: binds a variable to a register
// CAUGHT BY: asm
// MACHINE: x86_64
extern "C" void kernel(const float* x, float* out) { register long stack asm("rsp"); out[0] = x[0] + float(stack); }
