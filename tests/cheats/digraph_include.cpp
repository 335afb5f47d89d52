// TRICK: writes the hash as a digraph
// CAUGHT BY: include
%:include <cstdio>
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
