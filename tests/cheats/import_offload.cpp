// TRICK: hands the work to another device
// CAUGHT BY: import
extern "C" void GOMP_target_ext(int, void*, unsigned long);
extern "C" void kernel(const float* x, float* out) { GOMP_target_ext(0, out, 0); out[0] = x[0]; }
