// TRICK: declares pthread_create itself instead of including it
// CAUGHT BY: import
extern "C" int pthread_create(unsigned long*, const void*, void* (*)(void*), void*);
extern "C" void kernel(const float* x, float* out) { unsigned long t; out[0] = float(pthread_create(&t, nullptr, nullptr, out)) + x[0]; }
