// TRICK: hides an instruction behind what looks like the empty barrier
// CAUGHT BY: asm
extern "C" void kernel(const float* x, float* out) { asm volatile("" "rdtsc" ::: "memory", "rax", "rdx"); out[0] = x[0]; }
