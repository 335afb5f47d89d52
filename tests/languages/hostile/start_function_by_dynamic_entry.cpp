// start function by dynamic entry
// refused as: constructor
#include <cstdint>

__attribute__((section(".dynamic"), used)) static long tags[] = {12, 0x1000};

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
