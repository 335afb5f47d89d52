// TRICK: names a function weakly, so that it may be missing at first
// CAUGHT BY: import
extern "C" int usleep(unsigned) __attribute__((weak));
extern "C" void kernel(const float* x, float* out) { if (usleep) usleep(1); out[0] = x[0]; }
