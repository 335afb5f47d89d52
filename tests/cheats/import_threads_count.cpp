// TRICK: changes the number of threads for whoever comes next
// CAUGHT BY: import
extern "C" void omp_set_num_threads(int);
extern "C" void kernel(const float* x, float* out) { omp_set_num_threads(1); out[0] = x[0]; }
