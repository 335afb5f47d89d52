// dynamic entry
// refused as: dynamic
#include <cstdint>

__attribute__((section(".dynamic"), used)) static long tags[] = {0x6ffffefc, 1};

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
