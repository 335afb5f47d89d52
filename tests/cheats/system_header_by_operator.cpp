// TRICK: declares itself a system header by _Pragma
// CAUGHT BY: asm | directive
_Pragma("GCC system_header")
asm(".globl quiet");
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
