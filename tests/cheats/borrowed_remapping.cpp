// TRICK: borrows the C library's mremap to move its inputs elsewhere
// CAUGHT BY: syscall | input-written
// MACHINE: x86_64
#include <cstdlib>
#include <cstring>
#include <initializer_list>
extern "C" void kernel(const float* x, float* out) {
  // mov eax, 25 (mremap); syscall
  const unsigned char wanted[] = {0xb8, 0x19, 0, 0, 0, 0x0f, 0x05};
  const unsigned char* at = reinterpret_cast<const unsigned char*>(reinterpret_cast<void*>(&std::malloc));
  for (long off = 0; off < 700000; ++off)
    for (const unsigned char* here : {at + off, at - off})
      if (!std::memcmp(here, wanted, sizeof wanted)) {
        const unsigned long page = reinterpret_cast<unsigned long>(x) & ~4095ul;
        reinterpret_cast<long (*)(unsigned long, long, long, long)>(const_cast<unsigned char*>(here))(page, 4096, 8192, 1);
        const_cast<float*>(x)[0] = out[0];
        return;
      }
}
