// TRICK: registers code for the end of the process
// CAUGHT BY: constructor
extern "C" int atexit(void (*)());
extern "C" void kernel(const float* x, float* out) { atexit(nullptr); out[0] = x[0]; }
