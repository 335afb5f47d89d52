// static object
// refused as: constructor
#include <cstdint>

struct S { S() { n = 1; } volatile int n; }; static S s;

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
