// TRICK: pretends to be a line of a standard header
// CAUGHT BY: directive
#line 1 "/usr/include/stdio.h"
asm("nop");
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
