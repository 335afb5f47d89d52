// Products that are over in a few microseconds: mma.sync on operands that pass through registers only (b n x k, sm_80).
//
// A kernel that waits once for memory and has no ring, no barrier before its sums and little code: what is left of a
// small product is the launch, one round trip to memory, and adding up. Sums over k do not depend on its order, so that
// a lane takes eight neighbouring elements of a row (16 bytes) of both operands, and the first four of them stand for
// its places 2t, 2t + 1, 2t + 8, 2t + 9 of one mma's sixteen, the others of the next one's.
//
// Constants printed before: BM, BN, WARPS, DEPTH, and those of common.cuh. WARPS warps and SPLITS blocks of a cluster
// share k; every block brings its partial sums to the block that adds up that part of the tile.
#pragma once

constexpr int THREADS = 32 * WARPS;
constexpr int MI = BM / 16, NI = BN / 8, PIECE = 32 * DEPTH;
constexpr int QUADS = BM * BN / 4, EACH = (QUADS + SPLITS - 1) / SPLITS;  // of four columns; of one block of the cluster
constexpr int SLAB = BM * (BN + PAD);
// The row of B that a column of the tile is: gates stand in the tile's first half and their partners in the second.
constexpr int OUT_N = PAIR ? BN / 2 : BN;
KW_DEVICE int row_of_b(const Sizes& s, int n0, int column) {
  if constexpr (PAIR) return column < OUT_N ? n0 + column : s.n + n0 + column - OUT_N;
  return n0 + column;
}
// Four neighbouring columns of the tile's sums; pairs lie side by side.
KW_DEVICE void store_quad(float4 x, const Sizes& s, const Ends& ends, int batch, int m, int n0, int column) {
  if constexpr (PAIR)
    store2(paired(x.x, x.y), paired(x.z, x.w), s, ends, batch, 0, m, n0 + column / 2);
  else
    store4(x, s, ends, batch, 0, m, n0 + column);
}

KW_DEVICE void direct_product(const Element* a, const Element* b, const Sizes& s, const Ends& ends) {
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, row = lane / 4, t = lane % 4;
  if constexpr (SPLITS > 1) kernelwright::cluster_arrive();  // nobody writes to a block that has not begun
  int at = int(blockIdx.x);
  const int rank = at % SPLITS, tiles_m = ceil_div(s.m, BM), tiles_n = ceil_div(s.n, OUT_N);
  at /= SPLITS;
  int tile_m, tile_n;
  place_tile(at % (tiles_m * tiles_n), tiles_m, tiles_n, tile_m, tile_n);
  const int batch = at / (tiles_m * tiles_n), m0 = tile_m * BM, n0 = tile_n * OUT_N;
  const Element* left[MI][2];
  const Element* right[NI];
#pragma unroll
  for (int i = 0; i < MI; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int m = m0 + i * 16 + h * 8 + row;
      left[i][h] = m < s.m ? a + (size_t(batch) * s.m + m) * s.k : nullptr;
    }
#pragma unroll
  for (int j = 0; j < NI; ++j) {
    const int column = j * 8 + row, n = n0 + (PAIR ? column % OUT_N : column);
    right[j] = n < s.n ? b + (size_t(batch) * s.n * (PAIR ? 2 : 1) + row_of_b(s, n0, column)) * s.k : nullptr;
  }
  float sums[MI][NI][4];
#pragma unroll
  for (int i = 0; i < MI; ++i)
#pragma unroll
    for (int j = 0; j < NI; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[i][j][e] = 0.f;

  const int pieces = ceil_div(s.k, PIECE), begin = pieces * rank / SPLITS, end = pieces * (rank + 1) / SPLITS;
  if constexpr (EARLY) kernelwright::grid_wait();
#pragma unroll 1
  for (int piece = begin + warp; piece < end; piece += WARPS) {
    uint4 x[DEPTH][MI][2], y[DEPTH][NI];
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
      const int k = piece * PIECE + d * 32 + t * 8;
      const auto load = [&](const Element* line) {
        return line != nullptr && k < s.k ? kernelwright::load_streaming(line + k) : make_uint4(0, 0, 0, 0);
      };
#pragma unroll
      for (int i = 0; i < MI; ++i) x[d][i][0] = load(left[i][0]), x[d][i][1] = load(left[i][1]);
#pragma unroll
      for (int j = 0; j < NI; ++j) y[d][j] = load(right[j]);
    }
#pragma unroll
    for (int d = 0; d < DEPTH; ++d)
#pragma unroll
      for (int i = 0; i < MI; ++i)
#pragma unroll
        for (int j = 0; j < NI; ++j) {
          const uint4 &p = x[d][i][0], &q = x[d][i][1], &r = y[d][j];
          const uint32_t first[4] = {p.x, q.x, p.y, q.y}, second[4] = {p.z, q.z, p.w, q.w};
          kernelwright::mma(Kind{}, sums[i][j], first, r.x, r.y);
          kernelwright::mma(Kind{}, sums[i][j], second, r.z, r.w);
        }
  }
  if constexpr (EARLY) kernelwright::grid_trigger();

  if constexpr (WARPS == 1 && SPLITS == 1 && !PAIR) {
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
      for (int j = 0; j < NI; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h)
          store2(sums[i][j][2 * h], sums[i][j][2 * h + 1], s, ends, batch, 0, m0 + i * 16 + h * 8 + row, n0 + j * 8 + t * 2);
    return;
  }
  float* slabs = reinterpret_cast<float*>(kernelwright::shared_memory());
  float* inbox = slabs + WARPS * SLAB;
#pragma unroll
  for (int i = 0; i < MI; ++i)
#pragma unroll
    for (int j = 0; j < NI; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int column = j * 8 + t * 2;
        float* to = slabs + warp * SLAB + (i * 16 + h * 8 + row) * (BN + PAD);
        if constexpr (PAIR) {
          float* here = to + column % OUT_N * 2 + column / OUT_N;
          here[0] = sums[i][j][2 * h], here[2] = sums[i][j][2 * h + 1];
        } else {
          *reinterpret_cast<float2*>(to + column) = make_float2(sums[i][j][2 * h], sums[i][j][2 * h + 1]);
        }
      }
  __syncthreads();
  if constexpr (SPLITS > 1) kernelwright::cluster_wait();
  for (int quad = int(threadIdx.x); quad < QUADS; quad += THREADS) {
    const int m = quad / (BN / 4), column = quad % (BN / 4) * 4;
    float4 sum = *reinterpret_cast<const float4*>(slabs + m * (BN + PAD) + column);
#pragma unroll
    for (int w = 1; w < WARPS; ++w) {
      const float4 x = *reinterpret_cast<const float4*>(slabs + w * SLAB + m * (BN + PAD) + column);
      sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
    }
    if constexpr (SPLITS > 1)
      kernelwright::cluster_store(sum, shared_address(inbox + (rank * EACH + quad % EACH) * 4), quad / EACH);
    else
      store_quad(sum, s, ends, batch, m0 + m, n0, column);
  }
  if constexpr (SPLITS > 1) {
    kernelwright::cluster_arrive();
    kernelwright::cluster_wait();  // all have brought theirs; nobody reaches into another block behind this
    for (int place = int(threadIdx.x); place < EACH && rank * EACH + place < QUADS; place += THREADS) {
      float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
      for (int from = 0; from < SPLITS; ++from) {
        const float4 x = *reinterpret_cast<const float4*>(inbox + (from * EACH + place) * 4);
        sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
      }
      const int quad = rank * EACH + place;
      store_quad(sum, s, ends, batch, m0 + quad / (BN / 4), n0, quad % (BN / 4) * 4);
    }
  }
}
