// TRICK: asks for a plugin of the compiler
// CAUGHT BY: directive
#pragma GCC plugin quiet
#pragma plugin quiet
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
