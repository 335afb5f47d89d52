// A block of threads and what they do together: barriers, votes, shuffles; and a grid of blocks, one after another.
//
// The order in which threads and blocks run changes from call to call: ascending, descending, then shuffled. Whatever
// depends on it, because a barrier is missing, gives the judge's two calls of a draw two answers.
#pragma once
#include "shared.hpp"
#include "vectors.hpp"

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace kernelwright_emulation {

static int thread_count, arrived, ended, barrier_line;
static int counted, all_of, any_of, vote_count, vote_all, vote_any;
static uint32_t call_number, random_state;
static uint16_t thread_order[kMostThreads];

struct Lane {
  unsigned char given[16], taken[16];
  uint32_t mask, result;
  int from, line;
};
static Lane lanes[kMostThreads];

inline uint32_t next_random() {
  random_state ^= random_state << 13, random_state ^= random_state >> 17, random_state ^= random_state << 5;
  return random_state;
}

KWE_PLAIN inline void release_block() {
  for (int i = 0; i < thread_count; ++i)
    if (fibers[i].state == kAtBarrier) fibers[i].state = kReady;
  vote_count = counted, vote_all = all_of, vote_any = any_of;
  arrived = counted = any_of = 0, all_of = 1;
  block_order = ++now;
}
inline void thread_ended() { ++ended; }

KWE_PLAIN inline void meet_block(bool vote, int line) {
  barrier_line = line;
  counted += vote, all_of &= vote, any_of |= vote;
  if (++arrived == thread_count) {
    release_block();
    return;
  }
  leave(kAtBarrier);
}

// Waits for the lanes of the mask; the last of them resolves for all.
template <class Resolve>
KWE_PLAIN void meet_warp(uint32_t mask, int line, Resolve resolve) {
  const int me = current % kWarpSize, base = current - me;
  if (!(mask >> me & 1)) fault(kMask, line);
  Lane* warp = lanes + base;
  warp[me].mask = mask, warp[me].line = line;
  uint32_t live = 0, present = 0;
  for (int i = 0; i < kWarpSize && base + i < thread_count; ++i) {
    const State state = fibers[base + i].state;
    live |= uint32_t(state != kDone) << i;
    if (!(mask >> i & 1) || state == kDone) continue;
    if (i != me && (state != kAtWarp || warp[i].mask != mask)) {
      leave(kAtWarp);
      return;
    }
    present |= 1u << i;
  }
  resolve(warp, present);
  ++now;
  Order& order = orders[base / kWarpSize];
  if ((present & live) == live) order.whole = now;
  for (int i = 0; i < kWarpSize; ++i) {
    if (!(present >> i & 1)) continue;
    if (i != me) fibers[base + i].state = kReady;
    if (present != live)
      for (int j = 0; j < kWarpSize; ++j)
        if (present >> j & 1) order.pair[i][j] = now;
  }
}

template <class T>
T exchange(uint32_t mask, T given, int from, int line) {
  static_assert(sizeof(T) <= 16, "a shuffle moves up to 16 bytes");
  Lane& mine = lanes[current];
  std::memcpy(mine.given, &given, sizeof given);
  mine.from = from;
  meet_warp(mask, line, [](Lane* warp, uint32_t present) {
    for (int i = 0; i < kWarpSize; ++i) {
      if (!(present >> i & 1)) continue;
      const int source = warp[i].from;
      if (source >= 0 && source < kWarpSize && present >> source & 1)
        std::memcpy(warp[i].taken, warp[source].given, 16);
      else  // what a lane that does not take part would give is undefined
        std::memset(warp[i].taken, poison, 16);
    }
  });
  T taken;
  std::memcpy(&taken, lanes[current].taken, sizeof taken);
  return taken;
}

// What `join` makes of the values of all lanes in the mask.
template <class T, class Join>
T gather(uint32_t mask, T given, int line, Join join) {
  Lane& mine = lanes[current];
  std::memcpy(mine.given, &given, sizeof given);
  meet_warp(mask, line, [join](Lane* warp, uint32_t present) {
    T all{};
    bool first = true;
    for (int i = 0; i < kWarpSize; ++i) {
      if (!(present >> i & 1)) continue;
      T one;
      std::memcpy(&one, warp[i].given, sizeof one);
      all = first ? one : join(all, one);
      first = false;
    }
    for (int i = 0; i < kWarpSize; ++i)
      if (present >> i & 1) std::memcpy(warp[i].taken, &all, sizeof all);
  });
  T taken;
  std::memcpy(&taken, lanes[current].taken, sizeof taken);
  return taken;
}
inline uint32_t ballot(uint32_t mask, bool vote, int line) {
  return gather(mask, vote ? 1u << current % kWarpSize : 0u, line, [](uint32_t a, uint32_t b) { return a | b; });
}

inline void place(int thread) {
  threadIdx.x = unsigned(thread) % blockDim.x;
  threadIdx.y = unsigned(thread) / blockDim.x % blockDim.y;
  threadIdx.z = unsigned(thread) / blockDim.x / blockDim.y;
}

[[noreturn]] KWE_PLAIN inline void stuck() {
  for (int i = 0; i < thread_count; ++i)
    if (fibers[i].state == kAtWarp) fault(kWarp, lanes[i].line);
  fault(kBarrier, barrier_line);
}

KWE_PLAIN inline void run_block() {
  arrived = ended = counted = any_of = 0, all_of = 1;
  begin_block();
  for (int i = 0; i < thread_count; ++i) make_ready(i);
  while (ended < thread_count) {
    bool moved = false;
    for (int n = 0; n < thread_count; ++n) {
      const int i = thread_order[n];
      if (fibers[i].state != kReady) continue;
      place(i);
      resume(i);
      moved = true;
    }
    if (!moved) stuck();
  }
}

KWE_PLAIN inline void order_threads() {
  const uint32_t kind = call_number % 4;
  for (int i = 0; i < thread_count; ++i) thread_order[i] = uint16_t(kind == 1 ? thread_count - 1 - i : i);
  for (int i = thread_count - 1; kind >= 2 && i > 0; --i) {
    const int j = int(next_random() % uint32_t(i + 1));
    const uint16_t held = thread_order[i];
    thread_order[i] = thread_order[j], thread_order[j] = held;
  }
}

// Arguments of 64 bits: a kernel may call them long or long long.
template <class T>
struct Twin;
template <>
struct Twin<long> { using type = long long; };
template <>
struct Twin<unsigned long> { using type = unsigned long long; };
template <class T>
struct Twin<const T> { using type = const typename Twin<T>::type; };
template <class T>
struct Pointer {
  T* at;
  operator T*() const { return at; }
  operator typename Twin<T>::type*() const { return reinterpret_cast<typename Twin<T>::type*>(at); }
};
template <class T>
struct Number {
  T number;
  operator T() const { return number; }
  operator typename Twin<T>::type() const { return number; }
  template <class Other>
  operator Other() const = delete;
};
template <class T>
Pointer<T> pointer(T* at) { return {at}; }
template <class Exact>
auto number(Exact exact) { return Number<decltype(exact.number)>{exact.number}; }

// Sizes of a plan, for whole numbers from 0.
inline long long size_ceil_div(long long a, long long b) { return (a + b - 1) / b; }
inline long long size_min(long long a, long long b) { return a < b ? a : b; }
inline long long size_max(long long a, long long b) { return a < b ? b : a; }

inline void begin_call() {
  static const unsigned char kPatterns[] = {0xff, 0x7f, 0xff, 0x55};
  poison = kPatterns[call_number % 4];
  random_state = 0x9e3779b9u * (call_number + 1) | 1;
}
inline void end_call() { ++call_number; }

template <class Kernel>
KWE_PLAIN void launch(dim3 grid, dim3 block, unsigned dynamic_bytes, Kernel kernel) {
  static Kernel* held;
  caller = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  held = &kernel;
  body = [] { (*held)(); };
  gridDim = grid, blockDim = block;
  thread_count = int(block.x * block.y * block.z);
  begin_launch(dynamic_bytes);
  order_threads();
  const uint64_t blocks = uint64_t(grid.x) * grid.y * grid.z;
  for (uint64_t n = 0; n < blocks; ++n) {
    const uint64_t b = call_number % 2 ? blocks - 1 - n : n;
    current_block = b;
    blockIdx.x = unsigned(b % grid.x);
    blockIdx.y = unsigned(b / grid.x % grid.y);
    blockIdx.z = unsigned(b / grid.x / grid.y);
    run_block();
  }
}

}  // namespace kernelwright_emulation
