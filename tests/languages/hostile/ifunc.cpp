// ifunc
// refused as: ifunc
#include <cstdint>

extern "C" { static void one() {} void (*pick())() { return one; } }
extern "C" void chosen() __attribute__((ifunc("pick")));
void (*volatile p)() = chosen;

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
