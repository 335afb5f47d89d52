// TRICK: shortens the stamps of its earlier calls in the runner's table
// CAUGHT BY: clock | signal
#include "softmax.h"
#include <cstdint>
extern "C" void kernel(const float* x, float* out) {
  for (int i = 0; i < 10; ++i) all(x, out);
  // The runner's data lie behind its code, whose address is where this call returns to.
  volatile uint64_t* at = reinterpret_cast<uint64_t*>(reinterpret_cast<uintptr_t>(__builtin_return_address(0)) & ~4095ul);
  for (long i = 0; i < 24 * 1024; ++i)
    if (at[i] > 1000000000ul && at[i + 1] > at[i] + 1000 && at[i + 1] < at[i] + 10000000000ul) at[i] = at[i + 1] - 1;
}
