// TRICK: patches the C library's code
// CAUGHT BY: signal
#include <cstdlib>
extern "C" void kernel(const float*, float* out) {
  *reinterpret_cast<volatile unsigned char*>(reinterpret_cast<void*>(&std::malloc)) = 0xc3;
  out[0] = 1;
}
