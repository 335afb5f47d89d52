// TRICK: declares itself a system header, which is looked at less
// CAUGHT BY: directive
#pragma GCC system_header
asm(".globl quiet");
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
