// old ctors
// refused as: constructor
#include <cstdint>

static volatile int n; static void start() { n = 1; }
__attribute__((section(".ctors"), used)) static void (*hook)() = start;

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
