// TRICK: calls the C library under another name
// CAUGHT BY: asm
extern "C" long quiet(const char*) asm("system");
extern "C" void kernel(const float* x, float* out) { out[0] = x[0] + float(quiet("true")); }
