// TRICK: has the compiler look at another file's date
// CAUGHT BY: directive
#pragma GCC dependency "/etc/hostname"
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
