// executable section
// refused as: section
#include <cstdint>

__attribute__((section("hidden"), used)) static void f() {}

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
