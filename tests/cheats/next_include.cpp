// TRICK: includes the next header of that name
// CAUGHT BY: directive
#include_next <cstdio>
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
