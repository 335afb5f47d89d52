// TRICK: puts code bytes into an executable section of its own
// CAUGHT BY: attribute
__attribute__((section(".text.own"))) static const unsigned char code[] = {0x0f, 0x05, 0xc3};
extern "C" void kernel(const float* x, float* out) { out[0] = x[0] + float(code[0]); }
