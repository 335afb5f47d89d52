// Products by wgmma on tiles that the copy engine brings: one producing warpgroup, one to three that multiply (sm_90a).
//
// Constants printed before: BM, BN (rows of the tile of X and of Y), STAGES, CONSUMERS, PINGPONG, CLUSTER_M, CLUSTER_N,
// SWAP, X_K, Y_K (whether X, Y are contiguous along k), BOX_STORE, STORE_BUFFERS, CHUNK, MULTIPROCESSOR_BLOCKS, UP, DOWN,
// and those of common.cuh; the function wgmma(sums, x, y, add) for BN columns.
//
// sums = X Y^T, where X gives wgmma's 64-row side. Plain: X = A (rows m), Y = B (rows n). SWAP: X = B (rows n), Y = A
// (rows m), for few rows m; the output is then written transposed.
#pragma once
#include "tail.cuh"

constexpr int BK = 64;                       // 128 bytes of a row: one swizzle line
constexpr int WARPGROUP = 128;
constexpr int THREADS = WARPGROUP * (CONSUMERS + 1);
constexpr int ROWS = PINGPONG ? BM : BM / CONSUMERS;  // of X, for one warpgroup
constexpr int BLOCKS = ROWS / 64;
constexpr int CLUSTER = CLUSTER_M * CLUSTER_N;
constexpr int CHUNKS_Y = (BN + 63) / 64;
constexpr uint32_t X_BYTES = BM * BK * 2, Y_BYTES = (Y_K ? BN : CHUNKS_Y * 64) * BK * 2, STAGE_BYTES = X_BYTES + Y_BYTES;
constexpr int TILE_M = SWAP ? BN : BM, TILE_N = SWAP ? BM : BN;
constexpr uint32_t BUFFER_BYTES = SWAP ? BN * 128 : 64 * CHUNK * 2;
constexpr int CONSUMING_GROUPS = PINGPONG ? 1 : CONSUMERS;  // warpgroups that use one stage

// ---- descriptors of operands in shared memory, with the 128-byte swizzle (PTX ISA, "Matrix descriptor format")
// Along k: 8 rows of 128 bytes are 1024 bytes apart. Along m or n: 64 of them are one line of 128 bytes; the next 64
// lie BK lines further (leading), the next 8 of k 1024 bytes further (stride).
template <bool ALONG_K>
KW_DEVICE uint64_t descriptor(uint32_t at) {
  constexpr uint64_t LEADING = ALONG_K ? 1 : BK * 128 / 16, STRIDE = 1024 / 16, SWIZZLE_128 = 1;
  return uint64_t((at & 0x3ffff) >> 4) | LEADING << 16 | STRIDE << 32 | SWIZZLE_128 << 62;
}
// How far 16 elements of k are, in the descriptor's units of 16 bytes.
template <bool ALONG_K>
constexpr uint64_t STEP_K = ALONG_K ? 2 : 16 * 128 / 16;

struct Work {
  int m, n, batch, part, begin, end;  // tile numbers, and blocks of k
  int slot = 0, workers = int(gridDim.x) / CLUSTER;  // of TAIL: the tile's place behind the whole waves; clusters
};

// The piece of work number `index` of this cluster; false behind the last.
KW_DEVICE bool work_at(int index, int rank, const Sizes& s, Work& work) {
  constexpr int ACROSS_M = SWAP ? CLUSTER_N : CLUSTER_M, ACROSS_N = SWAP ? CLUSTER_M : CLUSTER_N;
  const int tiles_m = ceil_div(s.m, TILE_M * ACROSS_M), tiles_n = ceil_div(s.n, TILE_N * ACROSS_N);
  const int tiles = tiles_m * tiles_n;
  int tail = -1;
  if constexpr (TAIL > 1) {
    if (!tail_work(index, tiles * s.batch, work.workers, tail)) return false;
  } else {
    if (index >= tiles * PARTS * s.batch) return false;
  }
  int m, n;
  place_tile(index % tiles, tiles_m, tiles_n, m, n);
  const int x = rank % CLUSTER_M, y = rank / CLUSTER_M;
  work.m = m * ACROSS_M + (SWAP ? y : x), work.n = n * ACROSS_N + (SWAP ? x : y);
  const int other = index / tiles;
  work.part = other % PARTS, work.batch = other / PARTS;
  const int share = SPLITS > 1 ? work.part * SPLITS + rank : work.part, blocks = ceil_div(s.k, BK);
  if constexpr (SPLITS > 1) work.m = m, work.n = n;
  work.begin = blocks * share / (SPLITS * PARTS), work.end = blocks * (share + 1) / (SPLITS * PARTS);
  if constexpr (TAIL > 1) {
    work.part = tail, work.batch = other, work.begin = 0, work.end = blocks;
    if (tail >= 0) {
      work.begin = blocks * tail / TAIL, work.end = blocks * (tail + 1) / TAIL;
      work.slot = index - whole_waves(tiles * s.batch, work.workers);
    }
  }
  return true;
}

struct Ring {
  int stage = 0;
  uint32_t phase = 0;
  KW_DEVICE void next() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
  KW_DEVICE void skip(int count) {
    stage += count;
    phase ^= stage / STAGES & 1, stage %= STAGES;
  }
};

struct Places {
  uint32_t tiles, buffers, full, empty, order;
};
KW_DEVICE uint32_t x_tile(const Places& at, int stage) { return at.tiles + stage * STAGE_BYTES; }
KW_DEVICE uint32_t y_tile(const Places& at, int stage) { return at.tiles + stage * STAGE_BYTES + X_BYTES; }

// Brings one operand's tile, or this block's share of it for all `sharers` blocks that need it.
template <int ROWS_OF_TILE, bool ALONG_K, int SHARERS>
KW_DEVICE void bring(uint32_t to, const CUtensorMap* map, uint32_t barrier, int row, int k, int batch, int share,
                     uint16_t ranks) {
  if constexpr (ALONG_K) {
    constexpr int EACH = ROWS_OF_TILE / SHARERS;
    if constexpr (SHARERS > 1)
      kernelwright::load_box_to_all(to + share * EACH * 128, map, barrier, k, row + share * EACH, batch, ranks);
    else
      kernelwright::load_box(to, map, barrier, k, row, batch);
  } else {
    constexpr int EACH = BK / SHARERS;
#pragma unroll
    for (int chunk = 0; chunk < (ROWS_OF_TILE + 63) / 64; ++chunk) {
      const uint32_t here = to + chunk * BK * 128;
      if constexpr (SHARERS > 1)
        kernelwright::load_box_to_all(here + share * EACH * 128, map, barrier, row + chunk * 64, k + share * EACH, batch, ranks);
      else
        kernelwright::load_box(here, map, barrier, row + chunk * 64, k, batch);
    }
  }
}

KW_DEVICE void produce(const Places& at, const CUtensorMap* x, const CUtensorMap* y, const Sizes& s, int rank) {
  // Blocks of a cluster with the same rank % CLUSTER_M need the same tile of X.
  const int place_x = rank % CLUSTER_M, place_y = rank / CLUSTER_M;
  uint32_t x_ranks = 0, y_ranks = 0;
#pragma unroll
  for (int i = 0; i < CLUSTER_N; ++i) x_ranks |= 1u << (place_x + CLUSTER_M * i);
#pragma unroll
  for (int i = 0; i < CLUSTER_M; ++i) y_ranks |= 1u << (i + CLUSTER_M * place_y);
  Ring ring;
  Work work;
  const int step = int(gridDim.x) / (CLUSTER * SPLITS);
  for (int index = int(blockIdx.x) / (CLUSTER * SPLITS); work_at(index, rank, s, work); index += step) {
    const int row_x = (SWAP ? work.n : work.m) * BM, row_y = (SWAP ? work.m : work.n) * BN;
    for (int block = work.begin; block < work.end; ++block, ring.next()) {
      kernelwright::barrier_wait(at.empty + ring.stage * 8, ring.phase ^ 1);
      const uint32_t full = at.full + ring.stage * 8;
      kernelwright::barrier_expect(full, STAGE_BYTES);
      bring<BM, X_K, CLUSTER_N>(x_tile(at, ring.stage), x, full, row_x, block * BK, work.batch, place_y, uint16_t(x_ranks));
      bring<BN, Y_K, CLUSTER_M>(y_tile(at, ring.stage), y, full, row_y, block * BK, work.batch, place_x, uint16_t(y_ranks));
    }
  }
}

// Says that a stage may be filled again, to every block whose copies reach this one's stage.
KW_DEVICE void release(const Places& at, int stage, int rank, int lane) {
  if constexpr (CLUSTER == 1) {
    if (lane == 0) kernelwright::barrier_arrive(at.empty + stage * 8);
  } else {
    if (lane < CLUSTER && (lane % CLUSTER_M == rank % CLUSTER_M || lane / CLUSTER_M == rank / CLUSTER_M))
      kernelwright::barrier_arrive_at(at.empty + stage * 8, lane);
  }
}

KW_DEVICE void multiply(const Places& at, Ring& ring, float (&sums)[BLOCKS][BN / 2], int count, int row, int rank, int lane) {
  int last = 0;
  for (int block = 0; block < count; ++block, ring.next()) {
    kernelwright::barrier_wait(at.full + ring.stage * 8, ring.phase);
    const uint64_t x = descriptor<X_K>(x_tile(at, ring.stage) + row * BK * 2), y = descriptor<Y_K>(y_tile(at, ring.stage));
    kernelwright::wgmma_fence();
#pragma unroll
    for (int step = 0; step < BK / 16; ++step)
#pragma unroll
      for (int i = 0; i < BLOCKS; ++i)
        wgmma(sums[i], x + i * (64 * BK * 2 / 16) + step * STEP_K<X_K>, y + step * STEP_K<Y_K>, block > 0 || step > 0);
    kernelwright::wgmma_commit();
    if (block > 0) {
      kernelwright::wgmma_wait<1>();
      release(at, last, rank, lane);
    }
    last = ring.stage;
  }
  kernelwright::wgmma_wait<0>();
  release(at, last, rank, lane);
}

// sums[i][4 j + e] of thread t in a warpgroup: row 64 i + 16 (t / 32) + t % 32 / 4 + 8 (e / 2), column 8 j + 2 (t % 4) + e % 2.
KW_DEVICE void store_plainly(const float (&sums)[BLOCKS][BN / 2], const Sizes& s, const Ends& ends, const Work& work,
                             int row, int thread) {
#pragma unroll
  for (int i = 0; i < BLOCKS; ++i)
#pragma unroll
    for (int j = 0; j < BN / 8; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int x = row + i * 64 + thread / 32 * 16 + thread % 32 / 4 + h * 8, y = j * 8 + thread % 4 * 2;
        const float first = sums[i][4 * j + 2 * h], second = sums[i][4 * j + 2 * h + 1];
        if constexpr (SWAP) {
          store1(first, s, ends, work.batch, work.part, work.m * BN + y, work.n * BM + x);
          store1(second, s, ends, work.batch, work.part, work.m * BN + y + 1, work.n * BM + x);
        } else {
          store2(first, second, s, ends, work.batch, work.part, work.m * BM + x, work.n * BN + y);
        }
      }
}

// The byte at `offset` of a buffer whose lines are swizzled as the copy engine does for lines of CHUNK elements.
KW_DEVICE uint32_t swizzled(uint32_t offset) {
  constexpr int LINE = SWAP ? 64 : CHUNK;
  constexpr uint32_t MASK = LINE == 64 ? 0x70 : LINE == 32 ? 0x30 : LINE == 16 ? 0x10 : 0;
  return offset ^ (offset >> 3 & MASK);
}

// Through shared memory: a warpgroup fills one of its buffers while the copy engine empties the others.
KW_DEVICE void store_boxes(const float (&sums)[BLOCKS][BN / 2], unsigned char* shared, uint32_t buffers, int& turn,
                           const CUtensorMap* out, const Sizes& s, const Ends& ends, const Work& work, int row, int thread,
                           int group) {
  constexpr int ACROSS = SWAP ? 1 : BN / CHUNK;
  const int local = thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
  for (int i = 0; i < BLOCKS; ++i) {
#pragma unroll
    for (int c = 0; c < ACROSS; ++c) {
      if (thread == 0) kernelwright::store_wait_read<STORE_BUFFERS - 1>();
      kernelwright::meet(1 + group, WARPGROUP);
      const uint32_t offset = buffers + turn * BUFFER_BYTES;
      unsigned char* buffer = shared + offset;
#pragma unroll
      for (int j = c * (BN / 8 / ACROSS); j < (c + 1) * (BN / 8 / ACROSS); ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int x = local + h * 8, y = j * 8 + thread % 4 * 2;
          const float first = sums[i][4 * j + 2 * h], second = sums[i][4 * j + 2 * h + 1];
          if constexpr (SWAP) {
            const int m = work.m * BN + y, n = work.n * BM + row + i * 64 + x;
            *reinterpret_cast<Element*>(buffer + swizzled(y * 128 + x * 2)) = Element(finished(first, s, ends, work.batch, m, n));
            *reinterpret_cast<Element*>(buffer + swizzled((y + 1) * 128 + x * 2)) =
                Element(finished(second, s, ends, work.batch, m + 1, n));
          } else {
            const int m = work.m * BM + row + i * 64 + x, n = work.n * BN + y;
            const float f = finished(first, s, ends, work.batch, m, n), g = finished(second, s, ends, work.batch, m, n + 1);
            *reinterpret_cast<uint32_t*>(buffer + swizzled(x * CHUNK * 2 + (y - c * CHUNK) * 2)) = packed(f, g);
          }
        }
      kernelwright::fence_async();
      kernelwright::meet(1 + group, WARPGROUP);
      if (thread == 0) {
        if constexpr (SWAP)
          kernelwright::store_box(out, shared_address(buffer), work.n * BM + row + i * 64, work.m * BN, work.batch);
        else
          kernelwright::store_box(out, shared_address(buffer), work.n * BN + c * CHUNK, work.m * BM + row + i * 64, work.batch);
        kernelwright::store_commit();
      }
      turn = turn + 1 == STORE_BUFFERS ? 0 : turn + 1;
    }
  }
}

// Partial sums into the ring's memory, which nobody uses any more; as rows m, columns n.
KW_DEVICE void keep_sums(const float (&sums)[BLOCKS][BN / 2], float* slab, int row, int thread) {
#pragma unroll
  for (int i = 0; i < BLOCKS; ++i)
#pragma unroll
    for (int j = 0; j < BN / 8; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int x = row + i * 64 + thread / 32 * 16 + thread % 32 / 4 + h * 8, y = j * 8 + thread % 4 * 2;
        const float first = sums[i][4 * j + 2 * h], second = sums[i][4 * j + 2 * h + 1];
        if constexpr (SWAP)
          slab[y * (TILE_N + PAD) + x] = first, slab[(y + 1) * (TILE_N + PAD) + x] = second;
        else
          *reinterpret_cast<float2*>(slab + x * (TILE_N + PAD) + y) = make_float2(first, second);
      }
}

KW_DEVICE int tiles_of_all(const Sizes& s) {
  constexpr int ACROSS_M = SWAP ? CLUSTER_N : CLUSTER_M, ACROSS_N = SWAP ? CLUSTER_M : CLUSTER_N;
  return ceil_div(s.m, TILE_M * ACROSS_M) * ceil_div(s.n, TILE_N * ACROSS_N) * s.batch;
}
KW_DEVICE void keep_share(const float (&sums)[BLOCKS][BN / 2], const Sizes& s, const Ends& ends, const Work& work, int row,
                          int rank, int thread) {
  const int all = tiles_of_all(s), rest = all - whole_waves(all, work.workers);
  float* to = tail_place(ends, rest, CLUSTER, work.part, work.slot, rank);
#pragma unroll
  for (int i = 0; i < BLOCKS; ++i)
#pragma unroll
    for (int j = 0; j < BN / 8; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int x = row + i * 64 + thread / 32 * 16 + thread % 32 / 4 + h * 8, y = j * 8 + thread % 4 * 2;
        *reinterpret_cast<float2*>(to + x * BN + y) = make_float2(sums[i][4 * j + 2 * h], sums[i][4 * j + 2 * h + 1]);
      }
}
// A kernel of its own that adds up the shares of the last tiles, four columns a thread.
KW_DEVICE void add_tail(const Sizes& s, const Ends& ends, int workers) {
  const int all = tiles_of_all(s), rest = all - whole_waves(all, workers);
  const int quad = int(blockIdx.x * blockDim.x + threadIdx.x), tile = quad / (BM * BN / 4);
  if (tile >= rest * CLUSTER) return;
  const int local = quad % (BM * BN / 4) * 4, rank = tile % CLUSTER, slot = tile / CLUSTER;
  Work work;
  work.workers = workers;
  if (!work_at(all - rest + slot, rank, s, work)) return;
  float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
  for (int share = 0; share < TAIL; ++share) {
    const float4 x = *reinterpret_cast<const float4*>(tail_place(ends, rest, CLUSTER, share, slot, rank) + local);
    sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
  }
  store4(sum, s, ends, work.batch, 0, work.m * TILE_M + local / BN, work.n * TILE_N + local % BN);
}

KW_DEVICE void consume(const Places& at, unsigned char* shared, const CUtensorMap* out, const Sizes& s, const Ends& ends,
                       int rank, int group, int thread) {
  const int lane = thread % 32, row = PINGPONG ? 0 : group * ROWS;
  const uint32_t buffers = at.buffers + group * STORE_BUFFERS * BUFFER_BYTES;
  float sums[BLOCKS][BN / 2];
  Ring ring;
  Work work;
  int turn = 0, done = 0;
  const int step = int(gridDim.x) / (CLUSTER * SPLITS);
  int index = int(blockIdx.x) / (CLUSTER * SPLITS);
  if constexpr (PINGPONG) {
    if (group == 1) {
      if (work_at(index, rank, s, work)) ring.skip(work.end - work.begin);
      index += step;
    }
  }
  for (; work_at(index, rank, s, work); index += (PINGPONG ? 2 : 1) * step, ++done) {
    // In turn: a warpgroup multiplies while the other stores.
    if constexpr (PINGPONG) kernelwright::barrier_wait(at.order + group * 8, (done + 1 + group) & 1);
    multiply(at, ring, sums, work.end - work.begin, row, rank, lane);
    if constexpr (PINGPONG) {
      kernelwright::barrier_arrive(at.order + (1 - group) * 8);
      Work between;
      if (work_at(index + step, rank, s, between)) ring.skip(between.end - between.begin);
    }
    if constexpr (TAIL > 1) {
      if (work.part >= 0) {
        keep_share(sums, s, ends, work, row, rank, thread);
        continue;
      }
    }
    if constexpr (SPLITS > 1) {
      kernelwright::meet(5, CONSUMERS * WARPGROUP);
      keep_sums(sums, reinterpret_cast<float*>(shared), row, thread);
    } else if constexpr (BOX_STORE) {
      store_boxes(sums, shared, buffers, turn, out, s, ends, work, row, thread, group);
    } else {
      store_plainly(sums, s, ends, work, row, thread);
    }
  }
  if constexpr (BOX_STORE) {
    // The boxes must have been read before the block gives its memory back; the grid's end waits until they are written.
    if (thread == 0) kernelwright::store_wait_read<0>();
  }
}

KW_DEVICE void hopper_product(const CUtensorMap* x, const CUtensorMap* y, const CUtensorMap* out, const Sizes& s, const Ends& ends) {
  unsigned char* shared = kernelwright::shared_memory();
  const uint32_t base = shared_address(shared);
  if (base % 1024 != 0) __trap();  // swizzles count lines from there
  constexpr uint32_t BUFFERS = STAGES * STAGE_BYTES;
  constexpr uint32_t BARRIERS = BUFFERS + (BOX_STORE ? CONSUMERS * STORE_BUFFERS * BUFFER_BYTES : 0);
  const Places at = {base, BUFFERS, base + BARRIERS, base + BARRIERS + STAGES * 8, base + BARRIERS + STAGES * 16};
  const int thread = int(threadIdx.x), rank = CLUSTER * SPLITS > 1 ? int(kernelwright::cluster_rank()) : 0;
  if (thread == 0) {
    kernelwright::prefetch_map(x), kernelwright::prefetch_map(y);
    if constexpr (BOX_STORE) kernelwright::prefetch_map(out);
    for (int i = 0; i < STAGES; ++i) {
      kernelwright::barrier_init(at.full + i * 8, 1);
      kernelwright::barrier_init(at.empty + i * 8, 4 * CONSUMING_GROUPS * (CLUSTER_M + CLUSTER_N - 1));
    }
    if constexpr (PINGPONG) kernelwright::barrier_init(at.order, WARPGROUP), kernelwright::barrier_init(at.order + 8, WARPGROUP);
    kernelwright::barrier_init_fence();
  }
  if constexpr (CLUSTER * SPLITS > 1)
    kernelwright::cluster_meet();
  else
    __syncthreads();
  if constexpr (EARLY) kernelwright::grid_wait();

  // Each role to its end in one branch: behind a join the compiler would count with registers that one has given up.
  if (thread < WARPGROUP) {
    if constexpr (DOWN > 0) kernelwright::registers_down<DOWN>();
    if (thread == 0) produce(at, x, y, s, rank);
    __syncwarp();
    if constexpr (EARLY) kernelwright::grid_trigger();
    if constexpr (SPLITS > 1) kernelwright::cluster_meet();
    if constexpr (CLUSTER * SPLITS > 1) kernelwright::cluster_meet();
  } else {
    if constexpr (UP > 0) kernelwright::registers_up<UP>();
    const int inside = thread - WARPGROUP;
    consume(at, shared, out, s, ends, rank, inside / WARPGROUP, inside % WARPGROUP);
    if constexpr (EARLY) kernelwright::grid_trigger();
    if constexpr (SPLITS > 1) {
      kernelwright::cluster_meet();  // every block's partial sums are there
      Work work;
      if (work_at(int(blockIdx.x) / SPLITS, rank, s, work))
        add_and_store<TILE_M, TILE_N, 1, CONSUMERS * WARPGROUP>(
            reinterpret_cast<const float*>(shared), rank, inside, s, ends, work.batch, work.part, work.m * TILE_M,
            work.n * TILE_N);
    }
    if constexpr (CLUSTER * SPLITS > 1) kernelwright::cluster_meet();  // nobody leaves while others may reach its memory
  }
}
