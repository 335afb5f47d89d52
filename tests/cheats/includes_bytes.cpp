// TRICK: has the assembler include a file
// CAUGHT BY: asm
asm(".incbin \"/etc/passwd\"");
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
