// TRICK: pastes the constructor attribute from parts
// CAUGHT BY: attribute
#define PASTE(a, b) a##b
static volatile int seen;
__attribute__((PASTE(constru, ctor))) static void early() { seen = 1; }
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
