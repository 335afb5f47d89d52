// TRICK: hides a directive between comments
// CAUGHT BY: include
/* quiet */ # /* still */ include /* now */ <cstdio>
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
