// TRICK: changes how the process rounds
// CAUGHT BY: import
extern "C" int fesetround(int);
extern "C" void kernel(const float* x, float* out) { fesetround(0x400); out[0] = x[0]; }
