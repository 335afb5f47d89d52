// TRICK: puts machine code into an array and calls it
// CAUGHT BY: signal | out-of-bounds
// MACHINE: x86_64
static unsigned char code[16] = {0x0f, 0x05, 0xc3};
extern "C" void kernel(const float*, float* out) { out[0] = float(reinterpret_cast<long (*)()>(code)()); }
