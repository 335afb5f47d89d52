// TRICK: leaves a signal handler behind
// CAUGHT BY: import
extern "C" void (*signal(int, void (*)(int)))(int);
extern "C" void kernel(const float* x, float* out) { signal(11, nullptr); out[0] = x[0]; }
