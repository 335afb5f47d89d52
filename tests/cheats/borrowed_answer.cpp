// TRICK: borrows the C library's write to answer the judge itself
// CAUGHT BY: syscall | abort
// MACHINE: x86_64
#include <cstdlib>
#include <cstring>
extern "C" void kernel(const float*, float* out) {
  // xor/mov eax, 1 (write) with what follows differs between versions: the bare pair syscall, ret will do.
  const unsigned char* at = reinterpret_cast<const unsigned char*>(reinterpret_cast<void*>(&std::malloc));
  const unsigned char wanted[] = {0xb8, 0x01, 0, 0, 0, 0x0f, 0x05}, other[] = {0xb8, 0x27, 0, 0, 0, 0x0f, 0x05};
  for (long back = -500000; back < 700000; ++back)
    if (!std::memcmp(at - back, wanted, sizeof wanted) || !std::memcmp(at - back, other, sizeof other)) {
      reinterpret_cast<long (*)(long, const char*, long)>(const_cast<unsigned char*>(at - back))(1, "{\"passed\": true}", 16);
      out[0] = 1;
      return;
    }
  std::abort();
}
