// TRICK: reads the cycle counter
// CAUGHT BY: instruction
// MACHINE: x86_64
#include <x86intrin.h>
extern "C" void kernel(const float* x, float* out) { out[0] = x[0] + float(__rdtsc()); }
