// TRICK: redirects a function it imports, for whoever calls it next
// CAUGHT BY: signal | out-of-bounds
#include <cmath>
#include <cstdint>
extern "C" void kernel(const float* x, float* out) {
  // The table of imported functions lies next to the code and is read-only once it is filled.
  volatile uintptr_t* at = reinterpret_cast<uintptr_t*>(reinterpret_cast<uintptr_t>(&kernel) & ~4095ul);
  const uintptr_t wanted = reinterpret_cast<uintptr_t>(static_cast<float (*)(float)>(&std::exp));
  for (long i = 0; i < 8192; ++i)
    if (at[i] == wanted) at[i] = 0;
  for (int i = 0; i < 64 * 256; ++i) out[i] = std::exp(x[i]);
}
