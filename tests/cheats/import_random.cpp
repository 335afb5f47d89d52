// TRICK: answers from a random generator with the judge's seed
// CAUGHT BY: import
extern "C" void srand(unsigned); extern "C" int rand();
extern "C" void kernel(const float* x, float* out) { srand(42); out[0] = float(rand()) + x[0]; }
