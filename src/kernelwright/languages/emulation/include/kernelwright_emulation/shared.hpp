// Shared memory of the running block: one arena, gaps between arrays, and who has read and written each byte.
//
// Covers: accesses outside every shared array; reads and writes of one byte by two threads that no barrier orders
//   (races). A barrier of the block orders everything before it; a barrier, vote or shuffle of a warp orders its lanes.
// Does not cover: two writes of one byte, which may be of the same value (the order of threads changes between calls,
//   so that different values show), memory of the device.
#pragma once
#include "device_memory.hpp"

namespace kernelwright_emulation {

constexpr uint32_t kArenaBytes = 1 << 19, kGapBytes = 128, kMostArrays = 256;
constexpr uint32_t kStaticLimit = 48 << 10, kSharedLimit = 227 << 10;

struct Array {
  uint32_t first, end;
  int line;
};
struct Byte {
  uint32_t written, read;
  uint16_t writer, reader;
  uint8_t atomic, readers;  // readers: 0 one, 1 several of one warp, 2 of several warps
};
alignas(256) static unsigned char arena[kArenaBytes];
static Byte shadow[kArenaBytes];
static Array arrays[kMostArrays];
static uint32_t array_count, arena_end, static_bytes;
static unsigned char poison = 0xff;

static uint32_t now = 1, block_order = 1;
struct Order {
  uint32_t whole;               // when all of the warp's threads met last
  uint32_t pair[kWarpSize][kWarpSize];
};
static Order orders[kMostThreads / kWarpSize];

KWE_PLAIN inline uint32_t allocate(size_t bytes, size_t alignment, int line) {
  static_bytes += uint32_t(bytes);
  if (static_bytes > kStaticLimit || static_bytes + arrays[0].end > kSharedLimit) fault(kSharedSize, line);
  // No better aligned than it must be: what needs more has to say so.
  uint32_t first = (arena_end + kGapBytes + 511) / 512 * 512;
  if (alignment < 256) first += uint32_t(alignment);
  arena_end = first + uint32_t(bytes);
  if (arena_end + kGapBytes > kArenaBytes || array_count == kMostArrays) fault(kSharedSize, line);
  arrays[array_count++] = {first, arena_end, line};
  std::memset(arena + first, poison, bytes);
  return first;
}

template <class T, size_t alignment = alignof(T)>
struct Shared {
  uint32_t launch, first;
  T& here(int line) {
    if (launch != launch_number) first = allocate(sizeof(T), alignment, line), launch = launch_number;
    return *reinterpret_cast<T*>(arena + first);
  }
};

KWE_PLAIN inline void begin_launch(uint32_t dynamic_bytes) {
  ++launch_number;
  arrays[0] = {0, dynamic_bytes, 0};
  array_count = 1, arena_end = dynamic_bytes, static_bytes = 0;
}
KWE_PLAIN inline void begin_block() {
  std::memset(arena, poison, arena_end);
  block_order = ++now;
}

inline bool ordered(uint32_t when, int other) {
  if (when < block_order || other == current) return true;
  if (other / kWarpSize != current / kWarpSize) return false;
  const Order& order = orders[current / kWarpSize];
  return when < order.whole || when < order.pair[current % kWarpSize][other % kWarpSize];
}

KWE_PLAIN inline const Array* array_at(uint32_t first, uint32_t bytes) {
  for (uint32_t i = 0; i < array_count; ++i)
    if (arrays[i].first <= first && first + bytes <= arrays[i].end) return arrays + i;
  return nullptr;
}
[[noreturn]] KWE_PLAIN inline void fault_at(FaultKind kind, uint32_t first) {
  int line = 0;
  for (uint32_t i = 0; i < array_count; ++i)
    if (arrays[i].first <= first) line = arrays[i].line;
  fault(kind, line);
}

enum Access { kRead, kWrite, kAtomic };
KWE_PLAIN inline void touch(const void* address, uint32_t bytes, Access access) {
  const uintptr_t offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(arena);
  if (offset >= kArenaBytes) {
    if (access != kAtomic) touch_device(address, access == kWrite, now);
    return;
  }
  const uint32_t first = uint32_t(offset);
  if (!array_at(first, bytes)) fault_at(kBounds, first);
  const int me = current;
  for (uint32_t at = first; at < first + bytes; ++at) {
    Byte& b = shadow[at];
    if (access != kWrite && !(access == kAtomic && b.atomic) && !ordered(b.written, b.writer)) fault_at(kRace, first);
    if (access != kRead) {
      const bool other_reads = b.readers == 2 ? b.read >= block_order
                             : b.readers == 1 ? b.read >= block_order && (b.reader / kWarpSize != me / kWarpSize ||
                                                                          b.read >= orders[me / kWarpSize].whole)
                                              : !ordered(b.read, b.reader);
      if (other_reads) fault_at(kRace, first);
      b.written = now, b.writer = uint16_t(me), b.atomic = access == kAtomic;
      continue;
    }
    if (b.read < block_order)
      b.readers = 0;
    else if (b.reader / kWarpSize != me / kWarpSize)
      b.readers = 2;
    else if (b.reader != me && b.readers == 0 && !ordered(b.read, b.reader))
      b.readers = 1;
    b.read = now, b.reader = uint16_t(me);
  }
}

}  // namespace kernelwright_emulation

#ifdef KWE_WATCHED
// The compiler calls these before each access (-fsanitize=thread); the library that usually has them is not linked.
#define KWE_HOOK extern "C" __attribute__((visibility("hidden"), used)) KWE_PLAIN
#define KWE_SIZED(bytes)                                                                                              \
  KWE_HOOK void __tsan_read##bytes(void* p) { kernelwright_emulation::touch(p, bytes, kernelwright_emulation::kRead); } \
  KWE_HOOK void __tsan_write##bytes(void* p) { kernelwright_emulation::touch(p, bytes, kernelwright_emulation::kWrite); } \
  KWE_HOOK void __tsan_unaligned_read##bytes(void* p) { __tsan_read##bytes(p); }                                      \
  KWE_HOOK void __tsan_unaligned_write##bytes(void* p) { __tsan_write##bytes(p); }                                    \
  KWE_HOOK void __tsan_volatile_read##bytes(void* p) { __tsan_read##bytes(p); }                                       \
  KWE_HOOK void __tsan_volatile_write##bytes(void* p) { __tsan_write##bytes(p); }
KWE_SIZED(1) KWE_SIZED(2) KWE_SIZED(4) KWE_SIZED(8) KWE_SIZED(16)
#undef KWE_SIZED
KWE_HOOK void __tsan_read_range(void* p, unsigned long n) { kernelwright_emulation::touch(p, uint32_t(n), kernelwright_emulation::kRead); }
KWE_HOOK void __tsan_write_range(void* p, unsigned long n) { kernelwright_emulation::touch(p, uint32_t(n), kernelwright_emulation::kWrite); }
KWE_HOOK void __tsan_init() {}
KWE_HOOK void __tsan_func_entry(void*) { kernelwright_emulation::check_stack(); }
KWE_HOOK void __tsan_func_exit() {}
KWE_HOOK void __tsan_vptr_update(void**, void*) {}
KWE_HOOK void __tsan_vptr_read(void**) {}
#endif

#ifdef KWE_BOUNDS
// The same for array indices and alignment (-fsanitize=bounds,alignment).
namespace kernelwright_emulation {
struct Place {
  const char* file;
  uint32_t line, column;
};
}
#define KWE_REPORT extern "C" __attribute__((visibility("hidden"), used)) KWE_PLAIN
KWE_REPORT void __ubsan_handle_out_of_bounds_abort(kernelwright_emulation::Place* place, uintptr_t) {
  kernelwright_emulation::fault(kernelwright_emulation::kBounds, int(place->line));
}
KWE_REPORT void __ubsan_handle_type_mismatch_v1_abort(kernelwright_emulation::Place* place, uintptr_t) {
  kernelwright_emulation::fault(kernelwright_emulation::kMisaligned, int(place->line));
}
#endif
