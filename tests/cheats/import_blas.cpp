// TRICK: has a vendor's library multiply
// CAUGHT BY: symbol
extern "C" void cblas_sgemm(int, int, int);
extern "C" void kernel(const float* x, float* out) { cblas_sgemm(0, 0, 0); out[0] = x[0]; }
