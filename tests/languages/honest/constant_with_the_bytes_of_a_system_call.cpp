// constant with the bytes of a system call
#include <cstdint>

uint32_t f(uint32_t x) { return x ^ 0x050f050fu; } uint32_t (*volatile p)(uint32_t) = f;

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
