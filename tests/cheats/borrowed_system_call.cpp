// TRICK: finds a system call in the C library's own code and jumps there
// CAUGHT BY: syscall
// MACHINE: x86_64
#include <cstdlib>
#include <cstring>
extern "C" void kernel(const float*, float* out) {
  // mov eax, 62 (kill); syscall: the body of kill().
  const unsigned char wanted[] = {0xb8, 0x3e, 0, 0, 0, 0x0f, 0x05};
  const unsigned char* at = reinterpret_cast<const unsigned char*>(reinterpret_cast<void*>(&std::malloc));
  for (long back = 0; back < 600000; ++back)
    if (!std::memcmp(at - back, wanted, sizeof wanted)) {
      reinterpret_cast<long (*)(long, long)>(const_cast<unsigned char*>(at - back))(-1, 9);
      out[0] = 1;
      return;
    }
}
