// TRICK: includes what a macro names
// CAUGHT BY: include
#define FILE_NAME <cstdio>
#include FILE_NAME
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
