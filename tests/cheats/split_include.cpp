// TRICK: breaks a directive over two lines
// CAUGHT BY: include
#inc\
lude <cstdio>
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
