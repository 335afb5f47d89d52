// Writes to the device's memory in the running launch: who made the last one at an address.
//
// Covers: a thread that reads what another of its block has written, without a barrier in between; a block that changes
//   what another block has changed in the same launch (an update without an atomic operation loses one of the two).
// Does not cover: launches with fences, or locks made of atomic operations, which may order anything; accesses that
//   overlap without beginning at one address; writes that are crowded out of the table.
#pragma once
#include "fibers.hpp"

namespace kernelwright_emulation {

struct Write {
  uintptr_t address;
  uint64_t block, reader;  // reader: 1 + the last other block that has read it
  uint32_t launch, when;
  uint16_t thread;
};
constexpr uint32_t kMostWrites = 1 << 18;
static Write writes[kMostWrites];
static uint64_t current_block;
static uint32_t fenced_launch, launch_number;

// What belongs to the library and to the thread that calls it, and so is no memory of the device.
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start, _end;
constexpr uintptr_t kFrameBytes = 1 << 16;
static uintptr_t caller;
inline bool is_own(uintptr_t at) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(&__ehdr_start), end = reinterpret_cast<uintptr_t>(&_end);
  return at - first < end - first || at - (caller - kFrameBytes) < 2 * kFrameBytes;
}
inline void fence() { fenced_launch = launch_number; }

bool ordered(uint32_t when, int other);
KWE_PLAIN inline void touch_device(const void* address, bool write, uint32_t when) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  if (fenced_launch == launch_number || is_own(at)) return;
  Write& last = writes[(at >> 1 ^ at >> 19) % kMostWrites];
  const bool known = last.address == at && last.launch == launch_number;
  if (!write) {
    if (!known) return;
    if (last.block == current_block) {
      if (!ordered(last.when, last.thread)) fault(kDeviceRace, 0);
    } else {
      last.reader = current_block + 1;
    }
    return;
  }
  if (known && last.block != current_block && last.reader == current_block + 1) fault(kDeviceRace, 0);
  last = {at, current_block, 0, launch_number, when, uint16_t(current)};
}

}  // namespace kernelwright_emulation
