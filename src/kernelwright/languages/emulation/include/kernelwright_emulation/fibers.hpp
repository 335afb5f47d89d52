// Threads of a block as fibers: stacks, the switch between them, and how a fault ends the call.
//
// A fault is an access to an address that says what happened (faults.py reads it): the runner tells the judge where a
// kernel failed, and no other channel is open to it.
#pragma once
#include <cstdint>
#include <cstring>

#define KWE_PLAIN __attribute__((noinline, no_sanitize("thread"), no_sanitize("address")))

namespace kernelwright_emulation {

enum FaultKind : int {
  kBarrier = 2, kWarp = 3, kMask = 4, kMisaligned = 5, kBounds = 6, kRace = 7, kStack = 8, kSharedSize = 9, kTrap = 10, kDeviceRace = 11,
};
constexpr int kMostLines = 2047, kMostThreads = 1024, kWarpSize = 32;
constexpr size_t kStackBytes = 1 << 16, kCanaryBytes = 64, kSparedBytes = 4096;

[[noreturn]] KWE_PLAIN inline void fault(FaultKind kind, int line) {
#ifdef KWE_TOLD  // where kernels are called by something other than the judge
  KWE_TOLD(kind, line);
#endif
  const uintptr_t place = line < 0 || line > kMostLines ? 0 : uintptr_t(line);
  const volatile char* at = reinterpret_cast<const volatile char*>(1 + 2 * (uintptr_t(kind) * (kMostLines + 1) + place));
  (void)*at;
  __builtin_trap();
}

extern "C" __attribute__((visibility("hidden"))) void kwe_switch(void** from, void* to);
#if defined(__x86_64__)
asm(".text\n.p2align 4\n.type kwe_switch,@function\nkwe_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".size kwe_switch,.-kwe_switch\n");
constexpr int kSavedWords = 8, kStartWord = 6;
#elif defined(__aarch64__)
asm(".text\n.p2align 4\n.type kwe_switch,%function\nkwe_switch:\n"
    "sub sp,sp,#160\nstp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\n"
    "stp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\nstp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\nstp d12,d13,[sp,#128]\n"
    "stp d14,d15,[sp,#144]\nmov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
    "ldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\nldp x27,x28,[sp,#64]\n"
    "ldp x29,x30,[sp,#80]\nldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\nldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\n"
    "add sp,sp,#160\nret\n.size kwe_switch,.-kwe_switch\n");
constexpr int kSavedWords = 20, kStartWord = 11;
#else
#error "the emulation knows x86_64 and aarch64 only"
#endif

enum State : uint8_t { kReady, kAtBarrier, kAtWarp, kDone };
struct Fiber {
  void* stack;
  State state;
};
static Fiber fibers[kMostThreads];
static void* scheduler;
alignas(64) static unsigned char all_stacks[kMostThreads + 1][kStackBytes];  // the first is nobody's
static unsigned char (*const stacks)[kStackBytes] = all_stacks + 1;
static int current;
static void (*body)();

inline bool stack_is_whole(int thread) {
  uint64_t words[kCanaryBytes / 8];
  std::memcpy(words, stacks[thread], sizeof words);
  for (uint64_t word : words)
    if (word != 0x6b77656b77656b77) return false;
  return true;
}

// Leaves the running thread until the scheduler comes back to it.
KWE_PLAIN inline void leave(State state) {
  fibers[current].state = state;
  kwe_switch(&fibers[current].stack, scheduler);
}

void thread_ended();
KWE_PLAIN inline void start() {
  body();
  thread_ended();
  leave(kDone);
  __builtin_trap();
}

KWE_PLAIN inline void make_ready(int thread) {
  unsigned char* base = stacks[thread];
  for (size_t at = 0; at < kCanaryBytes; at += 8) {
    const uint64_t word = 0x6b77656b77656b77;
    std::memcpy(base + at, &word, 8);
  }
  void** top = reinterpret_cast<void**>(base + kStackBytes) - kSavedWords;
  for (int i = 0; i < kSavedWords; ++i) top[i] = nullptr;
  top[kStartWord] = reinterpret_cast<void*>(&start);
  fibers[thread] = {top, kReady};
}

KWE_PLAIN inline void resume(int thread) {
  current = thread;
  kwe_switch(&scheduler, fibers[thread].stack);
  if (!stack_is_whole(thread)) fault(kStack, 0);
}

// Called where functions begin, while there is room for them.
KWE_PLAIN inline void check_stack() {
  const unsigned char* here = static_cast<const unsigned char*>(__builtin_frame_address(0));
  if (here >= all_stacks[0] && here < stacks[current] + kSparedBytes && here < all_stacks[0] + sizeof all_stacks) fault(kStack, 0);
}

}  // namespace kernelwright_emulation
