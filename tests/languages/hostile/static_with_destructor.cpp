// static with destructor
// refused as: constructor
#include <cstdint>

extern "C" __attribute__((visibility("hidden"))) void* __dso_handle = nullptr;
struct S { ~S() { n = 1; } volatile int n; }; static S s;

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
