// TRICK: asks OpenMP for the time
// CAUGHT BY: import
extern "C" double omp_get_wtime();
extern "C" void kernel(const float* x, float* out) { out[0] = float(omp_get_wtime()) + x[0]; }
