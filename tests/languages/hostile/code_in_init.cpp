// code in .init
// refused as: constructor
#include <cstdint>

__attribute__((section(".init"), used)) static void start() {}

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
