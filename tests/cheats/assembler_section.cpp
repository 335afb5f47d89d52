// TRICK: has the assembler fill the table of what the loader calls
// CAUGHT BY: asm
asm(".pushsection .init_array\n.quad kernel\n.popsection");
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
