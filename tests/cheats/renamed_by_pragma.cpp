// TRICK: a pragma gives a harmless function the linker name of another one
// CAUGHT BY: import | pragma
#pragma redefine_extname expf usleep
extern "C" float expf(float);
extern "C" void kernel(const float* x, float* out) { out[0] = expf(x[0]); }
