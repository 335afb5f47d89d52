// thread_local with destructor
// refused as: import
#include <cstdint>

extern "C" __attribute__((visibility("hidden"))) void* __dso_handle = nullptr;
struct S { S() { n = 1; } ~S() { n = 2; } volatile int n; };
thread_local S s; int f() { return s.n; }
int (*volatile p)() = f;

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
