// TRICK: asks the loader for any function by name
// CAUGHT BY: import
extern "C" void* dlsym(void*, const char*);
extern "C" void kernel(const float* x, float* out) { out[0] = float(dlsym(nullptr, "fork") != nullptr) + x[0]; }
