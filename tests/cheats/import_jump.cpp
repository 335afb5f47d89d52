// TRICK: saves a place to jump to from another call
// CAUGHT BY: import
extern "C" int _setjmp(void*);
extern "C" void kernel(const float* x, float* out) { static long place[64]; out[0] = float(_setjmp(place)) + x[0]; }
