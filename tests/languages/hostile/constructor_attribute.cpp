// constructor attribute
// refused as: constructor
#include <cstdint>

static volatile int n; __attribute__((constructor)) static void start() { n = 1; }

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
