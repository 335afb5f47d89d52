// TRICK: writes the constructor attribute with digraphs and a scope
// CAUGHT BY: attribute
static volatile int seen;
<:<:gnu::constructor:>:> static void early() { seen = 1; }
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
