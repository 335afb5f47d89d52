// TRICK: reads the cycle counter with the processor's number
// CAUGHT BY: instruction
// MACHINE: x86_64
#include <x86intrin.h>
extern "C" void kernel(const float* x, float* out) { unsigned cpu; out[0] = x[0] + float(__rdtscp(&cpu)); }
