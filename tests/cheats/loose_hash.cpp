// TRICK: has a macro print a hash at the start of a line
// CAUGHT BY: directive
#define HASH #
HASH include <cstdio>
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
