// The functional models of languages/cuda_include/kernelwright_tensor.h: what each function means, not how it is done.
//
// Layouts are those of the PTX ISA: fragments of mma.m16n8k16, ldmatrix and wgmma.m64nNk16, the matrix descriptor's
// canonical layouts with the 128-byte swizzle, parity waits of mbarriers, transaction counts, swizzled boxes.
#pragma once
#include "kernelwright_cluster.hpp"

namespace kernelwright {
namespace kc = kernelwright_cluster;
struct Half {};
struct Brain {};
inline float wide(Half, uint16_t bits) { return kernelwright_emulation::half_to_float(bits); }
inline float wide(Brain, uint16_t bits) { return kernelwright_emulation::bfloat_to_float(bits); }

inline unsigned char* shared_memory() { return kc::blocks[kc::my_block()].shared; }
inline uint32_t shared_address(const void* p) {
  const long offset = static_cast<const unsigned char*>(p) - shared_memory();
  if (offset < 0 || offset >= long(kc::shared_bytes)) kc::fail("an address that is not in shared memory");
  return kc::kFirstAddress + uint32_t(offset);
}

inline void barrier_init(uint32_t at, uint32_t count) {
  kc::at(kc::my_block(), at, 8);
  kc::blocks[kc::my_block()].barriers[at] = {int(count), int(count), 0, 0};
}
inline void barrier_init_fence() {}
inline void barrier_arrive_at(uint32_t at, uint32_t rank) {
  kc::Barrier& b = kc::barrier(int(rank), at);
  if (!kc::blocks[rank].alive) kc::fail("an arrival at a block that has ended");
  --b.pending;
  kc::settle(b);
}
inline void barrier_arrive(uint32_t at) { barrier_arrive_at(at, uint32_t(kc::my_block())); }
inline void barrier_expect(uint32_t at, uint32_t bytes) {
  kc::Barrier& b = kc::barrier(kc::my_block(), at);
  b.bytes += bytes, --b.pending;
  kc::settle(b);
}
inline void barrier_wait(uint32_t at, uint32_t parity) {
  kc::Barrier& b = kc::barrier(kc::my_block(), at);
  kc::wait_until([&b, parity] { return b.phase != parity; });
}
inline void meet(int number, int count) { kc::meet(number, count); }
inline void announce(int number, int count) { kc::announce(number, count); }

inline void prefetch_map(const CUtensorMap*) {}
inline void load_box(uint32_t to, const CUtensorMap* map, uint32_t barrier, int x, int y, int z) {
  kc::load(to, map, barrier, x, y, z, 1u << kc::my_block());
}
inline void load_box_to_all(uint32_t to, const CUtensorMap* map, uint32_t barrier, int x, int y, int z, uint16_t ranks) {
  kc::load(to, map, barrier, x, y, z, ranks);
}
inline void store_box(const CUtensorMap* map, uint32_t from, int x, int y, int z) {
  const CUtensorMap copy = *map;
  const int block = kc::my_block();
  kc::check_box(copy, from);
  kc::add(kc::me().stores, kc::copy_mode, [=] {
    const int corner[3] = {x, y, z};
    kc::each_element(copy, from, corner, [&](uint32_t address, unsigned char* to) {
      if (to) std::memcpy(to, kc::at(block, address, 2), 2);
    });
  });
}
inline void store_commit() { kc::close(kc::me().stores); }
template <int left>
inline void store_wait_read() { kc::finish(kc::me().stores, left); }
inline void fence_async() {}

// ---- wgmma
struct Operand {
  uint32_t first, leading, stride;
  bool along_k;
};
inline Operand operand(uint64_t descriptor, bool along_k) {
  if (descriptor >> 62 != 1 || descriptor >> 49 & 7) kc::fail("a descriptor without the 128-byte swizzle, or with an offset");
  return {uint32_t(descriptor & 0x3fff) << 4, uint32_t(descriptor >> 16 & 0x3fff) << 4,
          uint32_t(descriptor >> 32 & 0x3fff) << 4, along_k};
}
// Where (row, k) of an operand lies.
inline uint32_t place(const Operand& o, int row, int k) {
  const uint32_t offset = o.along_k ? row / 8 * o.stride + row % 8 * 128 + k * 2
                                    : row / 64 * o.leading + row % 64 * 2 + k / 8 * o.stride + k % 8 * 128;
  return kc::swizzled(o.first + offset, 128);
}
template <class Kind, int COUNT>
inline void wgmma(Kind kind, bool x_k, bool y_k, float (&d)[COUNT], uint64_t x, uint64_t y, int add) {
  const Operand left = operand(x, x_k), right = operand(y, y_k);
  const int block = kc::my_block(), thread = kc::now_running % kc::block_threads % 128;
  float* sums = d;
  kc::add(kc::me().products, kc::product_mode, [=] {
    const auto element = [&](const Operand& o, int row, int k) {
      uint16_t bits;
      std::memcpy(&bits, kc::at(block, place(o, row, k), 2), 2);
      return wide(kind, bits);
    };
    const int row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
    float a[2][16];
    for (int h = 0; h < 2; ++h)
      for (int k = 0; k < 16; ++k) a[h][k] = element(left, row + 8 * h, k);
    for (int j = 0; j < COUNT / 4; ++j)
      for (int e = 0; e < 2; ++e) {
        float b[16], sum[2] = {0, 0};
        for (int k = 0; k < 16; ++k) b[k] = element(right, 8 * j + column + e, k);
        for (int h = 0; h < 2; ++h) {
          for (int k = 0; k < 16; ++k) sum[h] += a[h][k] * b[k];
          float& to = sums[4 * j + 2 * h + e];
          to = add ? to + sum[h] : sum[h];
        }
      }
  });
}
// Lanes of a warp are together at .sync.aligned instructions.
inline void wgmma_fence() { kc::meet_warp(); }
inline void wgmma_commit() { kc::close(kc::me().products); }
template <int left>
inline void wgmma_wait() {
  kc::finish(kc::me().products, left);
  kc::meet_warp();
}
template <int registers>
inline void registers_up() { static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256, ""); }
template <int registers>
inline void registers_down() { static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256, ""); }

// ---- clusters and grids
inline uint32_t cluster_rank() { return uint32_t(kc::my_block()); }
inline void cluster_arrive_relaxed() {
  if (kc::me().arrived) kc::fail("a thread arrives twice before it waits for its cluster");
  kc::me().arrived = true, kc::me().cluster_turn = kc::cluster_turn;
  if (++kc::met == kc::block_threads * kc::cluster_blocks) kc::met = 0, ++kc::cluster_turn;
}
inline void cluster_wait() {
  if (!kc::me().arrived) kc::fail("a thread waits for its cluster before it arrives");
  kc::wait_until([turn = kc::me().cluster_turn] { return kc::cluster_turn != turn; });
  kc::me().arrived = false;
}
inline void cluster_meet() { cluster_arrive_relaxed(), cluster_wait(); }
inline void cluster_send(float4 x, uint32_t to, uint32_t barrier, uint32_t rank) {
  if (to % 16) kc::fail("a store of 16 bytes that is not aligned");
  if (kc::me().arrived) kc::fail("a thread sends to a block that may not have begun: it has not waited for its cluster");
  kc::Action* action = kc::later([=] {
    std::memcpy(kc::at(int(rank), to, 16), &x, 16);
    kc::Barrier& b = kc::barrier(int(rank), barrier);
    b.bytes -= 16;
    kc::settle(b);
  });
  if (kc::early(kc::copy_mode))
    kc::perform(action);
  else
    kc::landing.push_back(action);
}
inline float4 cluster_load(uint32_t at, uint32_t rank) {
  if (at % 16) kc::fail("a load of 16 bytes that is not aligned");
  float4 got;
  std::memcpy(&got, kc::at(int(rank), at, 16), 16);
  return got;
}
inline void grid_wait() {}
inline void grid_trigger() {}

// ---- warps
template <int COUNT>
inline void ldmatrix(uint32_t (&to)[COUNT], uint32_t from, bool transposed) {
  if (from % 16) kc::fail("ldmatrix from an address that is not aligned to 16 bytes");
  const int lane = kc::my_lane();
  kc::exchange(from, [&](auto address) {
    for (int i = 0; i < COUNT; ++i) {
      uint16_t two[2];
      for (int e = 0; e < 2; ++e) {
        const int row = transposed ? lane % 4 * 2 + e : lane / 4, column = transposed ? lane / 4 : lane % 4 * 2 + e;
        std::memcpy(&two[e], kc::at(kc::my_block(), address(8 * i + row) + column * 2, 2), 2);
      }
      std::memcpy(&to[i], two, 4);
    }
  });
}
inline void ldmatrix4(uint32_t (&to)[4], uint32_t from) { ldmatrix(to, from, false); }
inline void ldmatrix4_transposed(uint32_t (&to)[4], uint32_t from) { ldmatrix(to, from, true); }
inline void ldmatrix2(uint32_t (&to)[2], uint32_t from) { ldmatrix(to, from, false); }
inline void ldmatrix2_transposed(uint32_t (&to)[2], uint32_t from) { ldmatrix(to, from, true); }

template <bool TRANSPOSED, int COUNT>
inline void store_matrices(uint32_t to, const uint32_t (&x)[COUNT]) {
  const int lane = kc::my_lane();
  if (lane < 8 * COUNT && to % 16) kc::fail("stmatrix to an address that is not aligned to 16 bytes");
  kc::exchange(to, [&](auto address) {
    for (int i = 0; i < COUNT; ++i)
      for (int e = 0; e < 2; ++e) {
        const int row = lane / 4, column = lane % 4 * 2 + e;
        const uint32_t place = TRANSPOSED ? address(8 * i + column) + row * 2 : address(8 * i + row) + column * 2;
        const uint16_t bits = uint16_t(x[i] >> 16 * e);
        std::memcpy(kc::at(kc::my_block(), place, 2), &bits, 2);
      }
  });
}
template <bool TRANSPOSED>
inline void store_matrices4(uint32_t to, const uint32_t (&x)[4]) { store_matrices<TRANSPOSED>(to, x); }
template <bool TRANSPOSED>
inline void store_matrices2(uint32_t to, uint32_t x, uint32_t y) { store_matrices<TRANSPOSED, 2>(to, {x, y}); }

struct Fragments {
  uint32_t a[4], b[2];
};
template <class Kind>
inline void mma(Kind kind, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const int lane = kc::my_lane();
  const auto part = [&](uint32_t two, int which) { return wide(kind, uint16_t(two >> 16 * which)); };
  kc::exchange(Fragments{{a[0], a[1], a[2], a[3]}, {b0, b1}}, [&](auto of) {
    for (int e = 0; e < 4; ++e) {
      const int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
      float sum = 0;
      for (int k = 0; k < 16; ++k) {
        const Fragments left = of(row % 8 * 4 + k % 8 / 2), right = of(column * 4 + k % 8 / 2);
        sum += part(left.a[row / 8 + k / 8 * 2], k % 2) * part(right.b[k / 8], k % 2);
      }
      d[e] += sum;
    }
  });
}
template <int bytes>
inline void copy_async(uint32_t to, const void* from, bool there) {
  if (to % bytes || (there && reinterpret_cast<uintptr_t>(from) % bytes)) kc::fail("a copy that is not aligned");
  const int block = kc::my_block();
  std::memset(kc::at(block, to, bytes), 0xff, bytes);
  kc::add(kc::me().copies, kc::copy_mode, [=] {
    if (there)
      std::memcpy(kc::at(block, to, bytes), from, bytes);
    else
      std::memset(kc::at(block, to, bytes), 0, bytes);
  });
}
inline void copy_commit() { kc::close(kc::me().copies); }
template <int left>
inline void copy_wait() { kc::finish(kc::me().copies, left); }
inline uint4 load_streaming(const void* from) { return *static_cast<const uint4*>(from); }

}  // namespace kernelwright
