// Runs CUDA C++ that uses kernelwright_tensor.h on the CPU: clusters of blocks at once, every thread a fiber.
//
// What is asynchronous on a device happens here as early as possible, as late as possible, or at random, by the seed:
// copies land early or late over poisoned memory, wgmma reads its operands at once or when it is waited for. A kernel
// that frees memory too soon, waits for too little or never wakes somebody is wrong or stuck under one of them.
//
// Covers: blocks of a cluster together, named barriers, mbarriers with transaction counts, tensor maps with swizzles and
//   zero fill, multicast, wgmma by its descriptors, mma.sync, ldmatrix, cp.async, shuffles, distributed shared memory.
// Does not cover: proxy fences (a missing one is not seen), registers, time, clusters that wait for each other.
#pragma once
#include "kernelwright_emulation/fibers.hpp"
#include "kernelwright_emulation/half.hpp"

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#define KERNELWRIGHT_EMULATED 1
#define KW_DEVICE inline
#define __global__
#define __device__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)

struct CUtensorMap {
  unsigned char* base;
  uint64_t shape[3], stride[3];  // elements; bytes of a step along each dimension
  uint32_t box[3], swizzle;
};
static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;

namespace kernelwright_cluster {

constexpr int kMostBlocks = 16, kGuard = 4096;
constexpr uint32_t kFirstAddress = 1024;  // of a block's own window
constexpr size_t kStack = 1 << 16;

struct Barrier {
  int count, pending;
  long bytes;
  uint32_t phase;
};
struct Block {
  std::vector<unsigned char> memory;
  unsigned char* shared;
  std::map<uint32_t, Barrier> barriers;
  int arrived[16];
  uint32_t turn[16];
  int alive;  // threads
};
struct Action {
  std::function<void()> run;
  bool done = false;
};
using Group = std::vector<Action*>;
struct Groups {
  Group open;
  std::deque<Group> closed;
};
struct Thread {
  void* stack;
  bool done;
  bool (*ready)(void*);
  void* argument;
  Groups copies, stores, products;
  bool arrived;  // at the cluster's barrier, and has not waited yet
  uint32_t cluster_turn;
};
struct Warp {
  int arrived;
  uint32_t turn;
  unsigned char given[32][64];
};

static std::vector<Block> blocks;
static std::vector<Thread> threads;
static std::vector<Warp> warps;
static std::vector<unsigned char> stacks;
static std::deque<Action> actions;
static std::vector<Action*> landing;  // loads under way
static int now_running, block_threads, cluster_blocks, met;
static uint32_t cluster_turn, shared_bytes, random_word;
static bool last_first;
static uint3 cluster_first;
static void* scheduler_stack;
static std::string failure;
static std::function<void()> kernel_body;
enum Mode { kEarly, kLate, kRandom };
static Mode copy_mode, product_mode;

inline uint32_t random_number() {
  random_word ^= random_word << 13, random_word ^= random_word >> 17, random_word ^= random_word << 5;
  return random_word;
}
inline bool early(Mode mode) { return mode == kEarly || (mode == kRandom && random_number() % 2); }
inline Thread& me() { return threads[now_running]; }
inline int my_block() { return now_running / block_threads; }
inline int my_lane() { return now_running % block_threads % 32; }

inline void to_scheduler() { kernelwright_emulation::kwe_switch(&me().stack, scheduler_stack); }
[[noreturn]] inline void fail(const std::string& why) {
  if (failure.empty()) {
    char where[96];
    std::snprintf(where, sizeof where, " (block %u, thread %u)", blockIdx.x, threadIdx.x);
    failure = why + where;
  }
  to_scheduler();
  std::abort();
}
template <class F>
inline void wait_until(F ready) {
  while (!ready()) {
    me().ready = [](void* p) { return (*static_cast<F*>(p))(); };
    me().argument = &ready;
    to_scheduler();
  }
  me().ready = nullptr;
}

// ---- memory
inline unsigned char* at(int block, uint32_t address, uint32_t bytes) {
  if (address < kFirstAddress || address + bytes > kFirstAddress + shared_bytes)
    fail("shared address " + std::to_string(int(address) - int(kFirstAddress)) + " of " + std::to_string(shared_bytes));
  return blocks[block].shared + (address - kFirstAddress);
}
inline Barrier& barrier(int block, uint32_t address) {
  if (address % 8) fail("a barrier that is not aligned to 8 bytes");
  auto found = blocks[block].barriers.find(address);
  if (found == blocks[block].barriers.end()) fail("a barrier that nobody has initialised");
  return found->second;
}
inline void settle(Barrier& b) {
  if (b.pending < 0) fail("more arrivals at a barrier than it counts");
  if (b.pending == 0 && b.bytes == 0) b.phase ^= 1, b.pending = b.count;
}

// ---- asynchronous work
inline Action* later(std::function<void()> run) {
  actions.push_back({std::move(run)});
  return &actions.back();
}
inline void perform(Action* action) {
  if (!action->done) action->done = true, action->run();
}
inline void add(Groups& groups, Mode mode, std::function<void()> run) {
  Action* action = later(std::move(run));
  groups.open.push_back(action);
  if (!early(mode)) return;
  for (Group& group : groups.closed)  // in order: products add to the same sums
    for (Action* before : group) perform(before);
  for (Action* before : groups.open) perform(before);
}
inline void close(Groups& groups) { groups.closed.push_back(groups.open), groups.open.clear(); }
inline void finish(Groups& groups, size_t left) {
  for (; groups.closed.size() > left; groups.closed.pop_front())
    for (Action* action : groups.closed.front()) perform(action);
}
inline bool land_one() {
  while (!landing.empty()) {
    const size_t chosen = random_number() % landing.size();
    Action* action = landing[chosen];
    landing[chosen] = landing.back(), landing.pop_back();
    if (action->done) continue;
    perform(action);
    return true;
  }
  return false;
}

inline uint32_t swizzled(uint32_t address, uint32_t line) {
  const uint32_t mask = line == 128 ? 0x70 : line == 64 ? 0x30 : line == 32 ? 0x10 : 0;
  return address ^ (address >> 3 & mask);
}
// The bytes of one box, element by element: shared address and address in the tensor, null outside.
template <class F>
inline void each_element(const CUtensorMap& map, uint32_t first, const int (&corner)[3], F use) {
  uint32_t offset = 0;
  for (uint32_t z = 0; z < map.box[2]; ++z)
    for (uint32_t y = 0; y < map.box[1]; ++y)
      for (uint32_t x = 0; x < map.box[0]; ++x, offset += 2) {
        const long p[3] = {long(corner[0]) + x, long(corner[1]) + y, long(corner[2]) + z};
        bool inside = true;
        size_t place = 0;
        for (int d = 0; d < 3; ++d)
          inside &= p[d] >= 0 && uint64_t(p[d]) < map.shape[d], place += size_t(p[d]) * map.stride[d];
        use(swizzled(first + offset, map.swizzle), inside ? map.base + place : nullptr);
      }
}
inline void check_box(const CUtensorMap& map, uint32_t address) {
  const uint32_t wanted = map.swizzle == 128 ? 1024 : map.swizzle == 64 ? 512 : map.swizzle == 32 ? 256 : 128;
  if (address % wanted) fail("a box that is not aligned to its swizzle's " + std::to_string(wanted) + " bytes");
}
inline void load(uint32_t to, const CUtensorMap* map, uint32_t full, int x, int y, int z, uint32_t ranks) {
  const CUtensorMap copy = *map;
  check_box(copy, to);
  const int corner[3] = {x, y, z};
  for (int block = 0; block < cluster_blocks; ++block) {
    if (!(ranks >> block & 1)) continue;
    const bool soon = early(copy_mode);
    if (!soon)
      each_element(copy, to, corner, [&](uint32_t address, unsigned char*) { std::memset(at(block, address, 2), 0xff, 2); });
    Action* action = later([=] {
      each_element(copy, to, corner, [&](uint32_t address, unsigned char* from) {
        if (from)
          std::memcpy(at(block, address, 2), from, 2);
        else
          std::memset(at(block, address, 2), 0, 2);
      });
      Barrier& b = barrier(block, full);
      b.bytes -= long(copy.box[0]) * copy.box[1] * copy.box[2] * 2;
      settle(b);
    });
    if (soon)
      perform(action);
    else
      landing.push_back(action);
  }
}

// ---- meeting
inline void announce(int number, int count) {
  if (count % 32) fail("a barrier for part of a warp");
  Block& block = blocks[my_block()];
  if (++block.arrived[number] == count) block.arrived[number] = 0, ++block.turn[number];
}
inline void meet(int number, int count) {
  Block& block = blocks[my_block()];
  const uint32_t turn = block.turn[number];
  announce(number, count);
  wait_until([&block, number, turn] { return block.turn[number] != turn; });
}
inline Warp& my_warp() { return warps[my_block() * (block_threads / 32) + now_running % block_threads / 32]; }
inline void meet_warp() {
  Warp& warp = my_warp();
  const uint32_t turn = warp.turn;
  if (++warp.arrived == 32) {
    warp.arrived = 0, ++warp.turn;
    return;
  }
  wait_until([&warp, turn] { return warp.turn != turn; });
}
// What every lane gave, as every lane sees it.
template <class T, class F>
inline void exchange(const T& given, F use) {
  static_assert(sizeof(T) <= 64, "");
  std::memcpy(my_warp().given[my_lane()], &given, sizeof given);
  meet_warp();
  use([](int lane) {
    T taken;
    std::memcpy(&taken, my_warp().given[lane], sizeof taken);
    return taken;
  });
  meet_warp();
}

// ---- running
inline void place(int thread) {
  now_running = thread;
  threadIdx = {unsigned(thread % block_threads), 0, 0};
  blockIdx = {cluster_first.x + unsigned(thread / block_threads), cluster_first.y, cluster_first.z};
}
inline void start() {
  kernel_body();
  me().done = true;
  --blocks[my_block()].alive;
  to_scheduler();
  std::abort();
}
inline void prepare_cluster() {
  const int all = block_threads * cluster_blocks;
  threads.assign(all, Thread{});
  warps.assign(all / 32, Warp{});
  blocks.assign(cluster_blocks, Block{});
  stacks.resize(kStack * all);
  actions.clear(), landing.clear();
  met = 0;
  for (Block& block : blocks) {
    block.alive = block_threads;
    block.memory.assign(shared_bytes + 1024 + 2 * kGuard, 0xff);
    const uintptr_t first = reinterpret_cast<uintptr_t>(block.memory.data()) + kGuard;
    block.shared = reinterpret_cast<unsigned char*>((first + 1023) / 1024 * 1024);
  }
  for (int i = 0; i < all; ++i) {
    void** top = reinterpret_cast<void**>(stacks.data() + kStack * (i + 1)) - kernelwright_emulation::kSavedWords;
    top = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(top) / 16 * 16);
    for (int w = 0; w < kernelwright_emulation::kSavedWords; ++w) top[w] = nullptr;
    top[kernelwright_emulation::kStartWord] = reinterpret_cast<void*>(&start);
    threads[i].stack = top;
  }
}
inline void check_guards() {
  for (Block& block : blocks) {
    const unsigned char* end = block.memory.data() + block.memory.size();
    for (const unsigned char* p = block.memory.data(); p < end; ++p)
      if ((p < block.shared || p >= block.shared + shared_bytes) && *p != 0xff) {
        failure = "a write outside shared memory, at byte " + std::to_string(long(p - block.shared));
        return;
      }
  }
}
inline void run_cluster() {
  prepare_cluster();
  const int all = int(threads.size());
  std::vector<int> order(all);
  for (int i = 0; i < all; ++i) order[i] = last_first ? all - 1 - i : i;  // nobody may count on who begins
  // At random, one warpgroup is slow: it goes on when nobody else can, so that the others run as far ahead as they may.
  const int slow = copy_mode == kRandom ? int(random_number() % uint32_t(all / 128 + 1)) : -1;
  for (bool held = true;;) {
    bool moved = false;
    int alive = 0;
    for (int i = all - 1; i > 0 && random_word % 3; --i) std::swap(order[i], order[random_number() % uint32_t(i + 1)]);
    for (int i : order) {
      Thread& thread = threads[i];
      if (thread.done) continue;
      ++alive;
      if (held && i / 128 == slow) continue;
      if (thread.ready && !thread.ready(thread.argument)) continue;
      place(i);
      kernelwright_emulation::kwe_switch(&scheduler_stack, thread.stack);
      moved = true;
      if (!failure.empty()) return;
      if (copy_mode == kRandom && random_number() % 16 == 0) land_one();
    }
    if (!alive) break;
    if (!moved && held && slow >= 0) {
      held = false;
      continue;
    }
    held = true;
    if (!moved && !land_one()) {
      place(order[0]);
      failure = "stuck: every thread waits (block " + std::to_string(blockIdx.x) + ")";
      return;
    }
    if (!failure.empty()) return;
  }
  for (Action* action : landing)
    if (!action->done) failure = "a block ended while copies to it were under way";
  for (Thread& thread : threads) {
    if (!thread.stores.open.empty()) failure = "stores that were never committed";
    finish(thread.stores, 0);
    if (!thread.products.closed.empty() || !thread.products.open.empty()) failure = "a wgmma that nobody waited for";
  }
  check_guards();
}

// Runs a grid of clusters, which lie along x, one after another; returns what went wrong, empty where nothing did.
inline std::string launch(dim3 grid, unsigned block, unsigned cluster, unsigned shared, unsigned seed,
                          std::function<void()> body) {
  failure.clear();
  kernel_body = std::move(body);
  gridDim = grid, blockDim = dim3(block);
  block_threads = int(block), cluster_blocks = int(cluster), shared_bytes = shared;
  random_word = 0x9e3779b9u * (seed + 1) | 1;
  last_first = seed % 2;
  copy_mode = Mode(seed % 3), product_mode = seed % 3 == 0 ? kLate : seed % 3 == 1 ? kEarly : kRandom;
  if (grid.x % cluster) return "a grid that its cluster does not divide";
  const unsigned across = grid.x / cluster, clusters = across * grid.y * grid.z;
  for (unsigned n = 0; n < clusters && failure.empty(); ++n) {
    const unsigned at = seed % 2 ? clusters - 1 - n : n;
    cluster_first = {at % across * cluster, at / across % grid.y, at / across / grid.y};
    run_cluster();
  }
  return failure;
}

}  // namespace kernelwright_cluster

[[noreturn]] inline void __trap() { kernelwright_cluster::fail("trap"); }
inline void __syncthreads() { kernelwright_cluster::meet(0, kernelwright_cluster::block_threads); }
inline void __syncwarp(unsigned = 0xffffffffu) { kernelwright_cluster::meet_warp(); }
template <class T>
inline T __shfl_xor_sync(unsigned, T x, int bits) {
  T got = x;
  kernelwright_cluster::exchange(x, [&](auto lane) { got = lane(kernelwright_cluster::my_lane() ^ bits); });
  return got;
}
template <class T>
inline T __ldg(const T* at) { return *at; }
