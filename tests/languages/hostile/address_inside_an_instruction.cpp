// address inside an instruction
// refused as: instruction
#include <cstdint>

extern "C" __attribute__((noinline, used)) int f() { return 0xc3050f; }
void (*volatile p)() = reinterpret_cast<void (*)()>(reinterpret_cast<char*>(f) + 1);

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
