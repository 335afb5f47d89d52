// TRICK: makes a system call without the C library
// CAUGHT BY: asm
// MACHINE: x86_64
extern "C" void kernel(const float*, float* out) {
  long answer = 39;
  asm volatile("syscall" : "+a"(answer) : : "rcx", "r11", "memory");
  out[0] = float(answer);
}
