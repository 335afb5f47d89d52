// Products by wgmma on tiles that the copy engine brings: one producing warpgroup, one to three that multiply (sm_90a).
//
// Constants printed before: BM, BN (rows of the tile of X and of Y), STAGES, CONSUMERS, PINGPONG, CLUSTER_M, CLUSTER_N,
// SWAP, X_K, Y_K (whether X, Y are contiguous along k), PERSISTENT, BOX_STORE, BOX_ROWS, STORE_BUFFERS, CHUNK, UP, DOWN, and
// those of common.cuh; the function wgmma(sums, x, y, add) for BN columns.
//
// sums = X Y^T, where X gives wgmma's 64-row side. Plain: X = A (rows m), Y = B (rows n). SWAP: X = B (rows n), Y = A
// (rows m), for few rows m; the output is then written transposed.
//
// A kernel that is not PERSISTENT has one tile: it divides nothing (the grid has three dimensions) and stores through the
// ring's memory. SPLITS blocks of a cluster share one tile's k; each stores JOINED of its columns.
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
constexpr int JOINED = BN / SPLITS;
constexpr uint32_t BUFFER_BYTES = SWAP ? JOINED * 128 : 64 * CHUNK * 2;
constexpr uint32_t INBOX_BYTES = SPLITS > 1 ? BM * BN * 4 : 0;
constexpr int READY = 6, ALL_DONE = 5;  // named barriers; those of single warpgroups are 1 to 3
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
  const int tiles = tiles_m * tiles_n, x = rank % CLUSTER_M, y = rank / CLUSTER_M, blocks = ceil_div(s.k, BK);
  if constexpr (!PERSISTENT) {
    const int across = int(blockIdx.x / (CLUSTER * SPLITS)), along = int(blockIdx.y);
    work.m = (ALONG_N ? along : across) * ACROSS_M + (SWAP ? y : x);
    work.n = (ALONG_N ? across : along) * ACROSS_N + (SWAP ? x : y);
    work.batch = int(blockIdx.z / PARTS), work.part = int(blockIdx.z % PARTS);
    const int share = SPLITS > 1 ? work.part * SPLITS + rank : work.part;
    if constexpr (SPLITS > 1) work.m = ALONG_N ? along : across, work.n = ALONG_N ? across : along;
    work.begin = blocks * share / (SPLITS * PARTS), work.end = blocks * (share + 1) / (SPLITS * PARTS);
    return index == 0;
  }
  int tail = -1;
  if constexpr (TAIL > 1) {
    if (!tail_work(index, tiles * s.batch, work.workers, tail)) return false;
  } else {
    if (index >= tiles * PARTS * s.batch) return false;
  }
  int m, n;
  place_tile(index % tiles, tiles_m, tiles_n, m, n);
  work.m = m * ACROSS_M + (SWAP ? y : x), work.n = n * ACROSS_N + (SWAP ? x : y);
  const int other = index / tiles;
  work.part = other % PARTS, work.batch = other / PARTS;
  work.begin = blocks * work.part / PARTS, work.end = blocks * (work.part + 1) / PARTS;
  if constexpr (TAIL > 1) {
    work.part = tail, work.batch = other, work.begin = 0, work.end = blocks;
    if (tail >= 0) {
      work.begin = blocks * tail / TAIL, work.end = blocks * (tail + 1) / TAIL;
      work.slot = index - whole_waves(tiles * s.batch, work.workers);
    }
  }
  return true;
}

// The first piece of work of this block's cluster, and how far the next one is.
KW_DEVICE int first_work() { return PERSISTENT ? int(blockIdx.x / CLUSTER) : 0; }
KW_DEVICE int step_of_work() { return PERSISTENT ? int(gridDim.x / CLUSTER) : 1; }

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
  uint32_t tiles, buffers, inbox, full, empty, order, arrived;
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
  int index = first_work();
  bool more = work_at(index, rank, s, work);
  if constexpr (CLUSTER > 1) kernelwright::cluster_wait();  // all barriers are ready
  for (; more; index += step_of_work(), more = work_at(index, rank, s, work)) {
    const int row_x = (SWAP ? work.n : work.m) * BM, row_y = (SWAP ? work.m : work.n) * BN;
#pragma unroll 1  // with more the compiler spills: the producer keeps few registers
    for (int block = work.begin; block < work.end; ++block, ring.next()) {
      kernelwright::barrier_wait(at.empty + ring.stage * 8, ring.phase ^ 1);
      const uint32_t full = at.full + ring.stage * 8;
      kernelwright::barrier_expect(full, STAGE_BYTES);
      bring<BM, X_K, CLUSTER_N>(x_tile(at, ring.stage), x, full, row_x, block * BK, work.batch, place_y, uint16_t(x_ranks));
      bring<BN, Y_K, CLUSTER_M>(y_tile(at, ring.stage), y, full, row_y, block * BK, work.batch, place_x, uint16_t(y_ranks));
    }
  }
  if constexpr (CLUSTER > 1) {
    // Nobody leaves while others may free its stages: every stage's last use is waited for.
#pragma unroll 1
    for (int i = 0; i < STAGES; ++i, ring.next()) kernelwright::barrier_wait(at.empty + ring.stage * 8, ring.phase ^ 1);
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

KW_DEVICE void multiply(const Places& at, Ring& ring, float (&sums)[BLOCKS][BN / 2], int count, int row, int rank, int group,
                        int lane) {
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
  // The other warpgroup's products queue up behind these, before they are finished.
  if constexpr (PINGPONG) kernelwright::barrier_arrive(at.order + (1 - group) * 8);
  kernelwright::wgmma_wait<0>();
  release(at, last, rank, lane);
}

// Every block of a cluster sends each other block what that one stores, from registers, and adds up its own share: threads
// of the same number hold the same places of the tile, so that nobody meets and nothing changes its order.
KW_DEVICE void join(const float (&sums)[BLOCKS][BN / 2], float (&joined)[BLOCKS][JOINED / 2], const unsigned char* shared,
                    const Places& at, int rank, int thread) {
  constexpr int EACH = JOINED / 8, STEP = CONSUMERS * WARPGROUP * 16;
  kernelwright::cluster_wait();  // all barriers are ready
#pragma unroll
  for (int i = 0; i < BLOCKS; ++i)
#pragma unroll
    for (int j = 0; j < BN / 8; ++j) {
      const float* x = &sums[i][4 * j];
      kernelwright::cluster_send(make_float4(x[0], x[1], x[2], x[3]),
                                 at.tiles + at.inbox + ((rank * EACH + j % EACH) * BLOCKS + i) * STEP + thread * 16,
                                 at.arrived, j / EACH);
    }
  kernelwright::barrier_wait(at.arrived, 0);
#pragma unroll
  for (int i = 0; i < BLOCKS; ++i)
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
      float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
      for (int from = 0; from < SPLITS; ++from) {
        const uint32_t place = at.inbox + ((from * EACH + j) * BLOCKS + i) * STEP + thread * 16;
        const float4 x = *reinterpret_cast<const float4*>(shared + place);
        sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
      }
      joined[i][4 * j] = sum.x, joined[i][4 * j + 1] = sum.y, joined[i][4 * j + 2] = sum.z, joined[i][4 * j + 3] = sum.w;
    }
}

// sums[i][4 j + e] of thread t in a warpgroup: row 64 i + 16 (t / 32) + t % 32 / 4 + 8 (e / 2), column 8 j + 2 (t % 4) + e % 2
// from `first` on.
template <int WIDTH>
KW_DEVICE void store_plainly(const float (&sums)[BLOCKS][WIDTH], const Sizes& s, const Ends& ends, const Work& work,
                             int row, int first, int thread) {
#pragma unroll
  for (int i = 0; i < BLOCKS; ++i)
#pragma unroll
    for (int j = 0; j < JOINED / 8; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int x = row + i * 64 + thread / 32 * 16 + thread % 32 / 4 + h * 8, y = first + j * 8 + thread % 4 * 2;
        const float one = sums[i][4 * j + 2 * h], two = sums[i][4 * j + 2 * h + 1];
        if constexpr (SWAP) {
          store1(one, s, ends, work.batch, work.part, work.m * BN + y, work.n * BM + x);
          store1(two, s, ends, work.batch, work.part, work.m * BN + y + 1, work.n * BM + x);
        } else {
          store2(one, two, s, ends, work.batch, work.part, work.m * BM + x, work.n * BN + y);
        }
      }
}

// What the copy engine's swizzle turns over in the places of a line of a buffer: 16 bytes by 16 bytes, by the line's number.
KW_DEVICE uint32_t turned(uint32_t line_offset) {
  constexpr int LINE = SWAP ? 64 : CHUNK;
  constexpr uint32_t MASK = LINE == 64 ? 0x70 : LINE == 32 ? 0x30 : LINE == 16 ? 0x10 : 0;
  return line_offset >> 3 & MASK;
}

// One warp's 16 rows of a box, COLUMNS of them from sums[4 j] on: 8 x 8 matrices by stmatrix, each lane giving a line's place.
// The columns are lines of the box where operands are exchanged.
template <int WIDTH>
KW_DEVICE void fill_box(const float (&sums)[WIDTH], int j0, uint32_t buffer, const Sizes& s, const Ends& ends, int batch,
                        int m0, int n0, int warp, int lane) {
  constexpr int COLUMNS = SWAP ? JOINED : CHUNK, AT_ONCE = COLUMNS % 16 == 0 ? 2 : 1;
  const int matrix = lane / 8, h = matrix & 1, line = warp * 16 + h * 8 + lane % 8;
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; j += AT_ONCE) {
    uint32_t four[4];
#pragma unroll
    for (int i = 0; i < 2 * AT_ONCE; ++i) {
      const float x = sums[4 * (j0 + j + i / 2) + 2 * (i & 1)], y = sums[4 * (j0 + j + i / 2) + 2 * (i & 1) + 1];
      const int row = warp * 16 + (i & 1) * 8 + lane / 4, column = 8 * (j + i / 2) + lane % 4 * 2;
      if constexpr (SWAP)
        four[i] = packed(finished(x, s, ends, batch, m0 + column, n0 + row), finished(y, s, ends, batch, m0 + column + 1, n0 + row));
      else
        four[i] = packed(finished(x, s, ends, batch, m0 + row, n0 + column), finished(y, s, ends, batch, m0 + row, n0 + column + 1));
    }
    // With one column of matrices the upper lanes' places are not used.
    const int place = AT_ONCE == 2 ? j + lane / 16 : j;
    const uint32_t offset = SWAP ? (place * 8 + lane % 8) * 128 : line * CHUNK * 2;
    const uint32_t at = buffer + offset + ((SWAP ? (warp * 2 + h) * 16 : place * 16) ^ turned(offset));
    if constexpr (AT_ONCE == 2)
      kernelwright::store_matrices4<SWAP>(at, four);
    else
      kernelwright::store_matrices2<SWAP>(at, four[0], four[1]);
  }
}

// Those whose sums are one box: a warpgroup, or a warp where a box has 16 rows.
KW_DEVICE void meet_for_box(int group) {
  if constexpr (BOX_ROWS == 16)
    __syncwarp();
  else
    kernelwright::meet(1 + group, WARPGROUP);
}

// Through shared memory: a buffer is filled while the copy engine empties the others. A block with one tile has a buffer
// for every part of it, in the ring.
template <int WIDTH>
KW_DEVICE void store_boxes(const float (&sums)[BLOCKS][WIDTH], uint32_t shared, uint32_t buffers, int& turn,
                           const CUtensorMap* out, const Sizes& s, const Ends& ends, const Work& work, int row, int first,
                           int thread, int group) {
  constexpr int ACROSS = SWAP ? 1 : JOINED / CHUNK, EACH = JOINED / 8 / ACROSS;
  const int warp = BOX_ROWS == 16 ? thread / 32 : 0;
  const bool sends = (BOX_ROWS == 16 ? thread % 32 : thread) == 0;
#pragma unroll
  for (int i = 0; i < BLOCKS; ++i) {
#pragma unroll
    for (int c = 0; c < ACROSS; ++c) {
      if constexpr (PERSISTENT) {
        if (sends) kernelwright::store_wait_read<STORE_BUFFERS - 1>();
        meet_for_box(group);
      }
      const uint32_t buffer = shared + buffers + turn * BUFFER_BYTES;
      const int m = SWAP ? work.m * BN + first : work.m * BM + row + i * 64;
      const int n = SWAP ? work.n * BM + row + i * 64 : work.n * BN + first + c * CHUNK;
      fill_box(sums[i], c * EACH, buffer, s, ends, work.batch, m, n, thread / 32, thread % 32);
      kernelwright::fence_async();
      meet_for_box(group);
      if (sends) {
        kernelwright::store_box(out, buffer + warp * 16 * CHUNK * 2, n, m + warp * 16, work.batch);
        kernelwright::store_commit();
      }
      turn = turn + 1 == STORE_BUFFERS ? 0 : turn + 1;
    }
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
  const int lane = thread % 32, row = PINGPONG ? 0 : group * ROWS, first = SPLITS > 1 ? rank * JOINED : 0;
  const uint32_t buffers = at.buffers + group * STORE_BUFFERS * BUFFER_BYTES;
  float sums[BLOCKS][BN / 2];
  Ring ring;
  Work work;
  int turn = 0, done = 0, index = first_work();
  const int step = step_of_work();
  if constexpr (PINGPONG) {
    if (group == 1) {
      if (work_at(index, rank, s, work)) ring.skip(work.end - work.begin);
      index += step;
    }
  }
  for (; work_at(index, rank, s, work); index += (PINGPONG ? 2 : 1) * step, ++done) {
    // In turn: a warpgroup multiplies while the other stores.
    if constexpr (PINGPONG) kernelwright::barrier_wait(at.order + group * 8, (done + 1 + group) & 1);
    multiply(at, ring, sums, work.end - work.begin, row, rank, group, lane);
    if constexpr (PINGPONG) {
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
      float joined[BLOCKS][JOINED / 2];
      join(sums, joined, shared, at, rank, group * WARPGROUP + thread);
      // Whose sums have arrived has read its ring to the end.
      if constexpr (BOX_STORE)
        store_boxes(joined, at.tiles, buffers, turn, out, s, ends, work, row, first, thread, group);
      else
        store_plainly(joined, s, ends, work, row, first, thread);
    } else if constexpr (BOX_STORE) {
      if constexpr (!PERSISTENT) kernelwright::meet(ALL_DONE, CONSUMERS * WARPGROUP);  // with the ring's memory
      store_boxes(sums, at.tiles, buffers, turn, out, s, ends, work, row, first, thread, group);
    } else {
      store_plainly(sums, s, ends, work, row, first, thread);
    }
  }
  if constexpr (BOX_STORE) {
    // The boxes must have been read before the block gives its memory back; the grid's end waits until they are written.
    if ((BOX_ROWS == 16 ? lane : thread) == 0) kernelwright::store_wait_read<0>();
  }
}

KW_DEVICE void prepare(const Places& at, const CUtensorMap* x, const CUtensorMap* y, const CUtensorMap* out) {
  kernelwright::prefetch_map(x), kernelwright::prefetch_map(y);
  for (int i = 0; i < STAGES; ++i) {
    kernelwright::barrier_init(at.full + i * 8, 1);
    kernelwright::barrier_init(at.empty + i * 8, 4 * CONSUMING_GROUPS * (CLUSTER_M + CLUSTER_N - 1));
  }
  if constexpr (PINGPONG) kernelwright::barrier_init(at.order, WARPGROUP), kernelwright::barrier_init(at.order + 8, WARPGROUP);
  if constexpr (SPLITS > 1) kernelwright::barrier_init(at.arrived, 1);
  kernelwright::barrier_init_fence();
  if constexpr (SPLITS > 1) kernelwright::barrier_expect(at.arrived, INBOX_BYTES);
  if constexpr (BOX_STORE) kernelwright::prefetch_map(out);
}

KW_DEVICE void hopper_product(const CUtensorMap* x, const CUtensorMap* y, const CUtensorMap* out, const Sizes& s, const Ends& ends) {
  unsigned char* shared = kernelwright::shared_memory();
  const uint32_t base = shared_address(shared);
  if (base % 1024 != 0) __trap();  // swizzles count lines from there
  constexpr uint32_t RING = STAGES * STAGE_BYTES, ALL_BUFFERS = BOX_STORE ? CONSUMERS * STORE_BUFFERS * BUFFER_BYTES : 0;
  constexpr uint32_t INBOX = PERSISTENT ? RING + ALL_BUFFERS : RING > ALL_BUFFERS ? RING : ALL_BUFFERS;
  constexpr uint32_t FULL = INBOX + INBOX_BYTES, EMPTY = FULL + STAGES * 8, ORDER = EMPTY + STAGES * 8;
  const Places at = {base, PERSISTENT ? RING : 0, INBOX, base + FULL, base + EMPTY, base + ORDER, base + ORDER};
  const int thread = int(threadIdx.x), rank = CLUSTER * SPLITS > 1 ? int(kernelwright::cluster_rank()) : 0;
  constexpr int WAITING = 32 + CONSUMERS * WARPGROUP;  // the producing warp, which does not wait, and who multiplies

  // Each role to its end in one branch: behind a join the compiler would count with registers that one has given up.
  if (thread < WARPGROUP) {
    if (thread == 0) prepare(at, x, y, out);
    __syncwarp();
    if constexpr (CLUSTER * SPLITS > 1) kernelwright::cluster_arrive_relaxed();
    if constexpr (CLUSTER == 1) {
      if (thread < 32) kernelwright::announce(READY, WAITING);
    }
    if constexpr (DOWN > 0) kernelwright::registers_down<DOWN>();
    if constexpr (EARLY) kernelwright::grid_wait();
    if (thread == 0)
      produce(at, x, y, s, rank);
    else if constexpr (CLUSTER > 1)
      kernelwright::cluster_wait();
    __syncwarp();
    if constexpr (EARLY) kernelwright::grid_trigger();
    if constexpr (SPLITS > 1) kernelwright::cluster_wait();
  } else {
    if constexpr (CLUSTER * SPLITS > 1) kernelwright::cluster_arrive_relaxed();
    if constexpr (UP > 0) kernelwright::registers_up<UP>();
    if constexpr (CLUSTER > 1)
      kernelwright::cluster_wait();
    else
      kernelwright::meet(READY, WAITING);
    if constexpr (EARLY) kernelwright::grid_wait();
    const int inside = thread - WARPGROUP;
    consume(at, shared, out, s, ends, rank, inside / WARPGROUP, inside % WARPGROUP);
    if constexpr (EARLY) kernelwright::grid_trigger();
  }
}
