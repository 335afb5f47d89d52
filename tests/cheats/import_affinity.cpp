// TRICK: binds itself to other processors than it was given
// CAUGHT BY: import
extern "C" int sched_setaffinity(int, unsigned long, const void*);
extern "C" void kernel(const float* x, float* out) { static char mask[128]; out[0] = float(sched_setaffinity(0, 128, mask)) + x[0]; }
