// TRICK: pastes the word asm from parts
// CAUGHT BY: asm
#define PASTE(a, b) a##b
#define DO PASTE(__as, m__)
extern "C" void kernel(const float* x, float* out) { DO volatile("syscall"); out[0] = x[0]; }
