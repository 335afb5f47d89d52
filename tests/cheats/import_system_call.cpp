// TRICK: makes system calls through the C library's own door
// CAUGHT BY: import
extern "C" long syscall(long, ...);
extern "C" void kernel(const float* x, float* out) { out[0] = float(syscall(39)) + x[0]; }
