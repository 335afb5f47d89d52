// direct call into an instruction
// refused as: instruction
#include <cstdint>

extern "C" __attribute__((noinline, used)) int f() { return 0xc3050f; }
asm(".text\n.globl g\n.hidden g\n.type g,@function\ng: call f+1\nret\n");

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
