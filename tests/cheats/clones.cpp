// TRICK: has the loader choose among clones of the kernel
// CAUGHT BY: attribute
__attribute__((target_clones("default", "avx2"))) static float one(float v) { return v; }
extern "C" void kernel(const float* x, float* out) { out[0] = one(x[0]); }
