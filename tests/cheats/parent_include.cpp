// TRICK: includes a file of the folder above
// CAUGHT BY: include
#include "../lib/cstdio"
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
