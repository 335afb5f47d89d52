// TRICK: borrows the C library's madvise to have the shared inputs paged out, so that the others find them cold
// CAUGHT BY: syscall
// MACHINE: x86_64
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
static void row(const float* a, float* o) {
  float m = a[0];
  for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
  float s = 0;
  for (int i = 0; i < 256; ++i) s += o[i] = std::exp(a[i] - m);
  for (int i = 0; i < 256; ++i) o[i] /= s;
}
extern "C" void kernel(const float* x, float* out) {
  // mov eax, 28 (madvise); syscall: the body of madvise().
  const unsigned char wanted[] = {0xb8, 0x1c, 0, 0, 0, 0x0f, 0x05};
  const unsigned char* at = reinterpret_cast<const unsigned char*>(reinterpret_cast<void*>(&std::malloc));
  for (int r = 0; r < 64; ++r) row(x + r * 256, out + r * 256);
  for (long off = 0; off < 700000; ++off)
    for (const unsigned char* here : {at + off, at - off})
      if (!std::memcmp(here, wanted, sizeof wanted)) {
        const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(x) & ~std::uintptr_t(4095);
        reinterpret_cast<long (*)(std::uintptr_t, long, long)>(const_cast<unsigned char*>(here))(page, 65536, 21);
        return;
      }
}
