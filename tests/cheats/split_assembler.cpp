// TRICK: breaks the word asm over two lines
// CAUGHT BY: asm
extern "C" void kernel(const float* x, float* out) { as\
m volatile("nop"); out[0] = x[0]; }
