// TRICK: puts a pointer among those that the loader calls
// CAUGHT BY: attribute
static void early() {}
__attribute__((section(".init_array"), used)) static void (*entry)() = early;
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
