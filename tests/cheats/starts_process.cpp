// TRICK: has a child process do the work
// CAUGHT BY: include
#include <unistd.h>
extern "C" void kernel(const float*, float* out) { out[0] = float(fork()); }
