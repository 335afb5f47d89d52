// TRICK: looks into the environment for a sign of the judge
// CAUGHT BY: import
extern "C" char* getenv(const char*);
extern "C" void kernel(const float* x, float* out) { out[0] = getenv("KERNELWRIGHT") ? 0 : x[0]; }
