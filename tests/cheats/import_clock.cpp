// TRICK: declares clock_gettime itself
// CAUGHT BY: import
extern "C" int clock_gettime(int, long*);
extern "C" void kernel(const float* x, float* out) { long t[2]; out[0] = float(clock_gettime(1, t)) + x[0]; }
