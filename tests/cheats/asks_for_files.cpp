// TRICK: asks whether a file exists on the judge's machine
// CAUGHT BY: include
#if __has_include("/etc/shadow")
#define LEAKED 1
#endif
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
