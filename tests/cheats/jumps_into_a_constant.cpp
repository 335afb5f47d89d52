// TRICK: hides a system call in a constant and jumps into the middle of the instruction
// CAUGHT BY: syscall
// MACHINE: x86_64
#include <cstdint>
static __attribute__((noinline)) uint64_t hide(uint64_t v) { return v ^ 0x9090c3050f909090ull; }
extern "C" void kernel(const float* x, float* out) {
  volatile uint64_t used = hide(uint64_t(x[0]));
  const unsigned char* at = reinterpret_cast<const unsigned char*>(reinterpret_cast<void*>(&hide));
  for (int i = 0; i < 64; ++i)
    if (at[i] == 0x0f && at[i + 1] == 0x05 && at[i + 2] == 0xc3)
      out[0] = float(reinterpret_cast<long (*)(long)>(const_cast<unsigned char*>(at + i))(long(used)));
}
