// TRICK: runs before anything is locked or timed
// CAUGHT BY: attribute
static float table[16];
__attribute__((constructor)) static void early() { table[0] = 1; }
extern "C" void kernel(const float*, float* out) { out[0] = table[0]; }
