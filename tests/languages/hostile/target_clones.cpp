// target clones
// refused as: constructor
#include <cstdint>

__attribute__((target_clones("avx2", "default"))) int f(int x) { return x * 3; } int (*volatile p)(int) = f;

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
