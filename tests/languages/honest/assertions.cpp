// assertions
#include <cstdint>

#include <cassert>
int f(int x) { assert(x > 0); if (x == 7) __builtin_trap(); return x; } int (*volatile p)(int) = f;

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
