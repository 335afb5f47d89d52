// TRICK: writes over the stack above itself
// CAUGHT BY: signal | protocol | exit | clock | out-of-bounds | syscall | abort
#include <cstdint>
extern "C" void kernel(const float*, float* out) {
  volatile uintptr_t here = 0;
  volatile uintptr_t* at = &here;
  for (int i = 0; i < 300; ++i) at[i] = reinterpret_cast<uintptr_t>(out);
}
