// fini_array
// refused as: constructor
#include <cstdint>

static volatile int n; static void stop() { n = 1; }
__attribute__((section(".fini_array"), used)) static void (*hook)() = stop;

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
