// TRICK: gives a function a second name that others may find
// CAUGHT BY: attribute
extern "C" void kernel(const float*, float*);
extern "C" void main_loop(const float*, float*) __attribute__((alias("kernel")));
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
