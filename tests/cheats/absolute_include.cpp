// TRICK: includes a file of the machine
// CAUGHT BY: include
#include "/etc/hostname"
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
