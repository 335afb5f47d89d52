// Products that are over in a few microseconds: mma.sync on operands that every lane brings for itself (b n x k, sm_80).
//
// What is left of a small product is the launch, one round trip to memory, and adding up; so there is no barrier before
// the sums, no permutation and little code. Sums over k do not depend on its order: a lane takes eight neighbouring
// elements of a row (16 bytes) of both operands, and the first four of them stand for its places 2t, 2t + 1, 2t + 8,
// 2t + 9 of one mma's sixteen, the others of the next one's. A lane's 16 bytes wait in shared memory (cp.async: with
// registers the compiler would not ask for much at once), in a ring that only this lane writes and reads.
//
// Constants printed before: BM, BN, WARPS, DEPTH (stages of a warp's ring), and those of common.cuh. WARPS warps and
// SPLITS blocks of a cluster share k; every block sends its partial sums to the block that adds up that part of the
// tile, whose barrier counts the bytes: nobody meets the whole cluster at the end.
#pragma once

constexpr int THREADS = 32 * WARPS;
constexpr int MI = BM / 16, NI = BN / 8, PIECE = 64, HALF_BYTES = (2 * MI + NI) * 512, STAGE_BYTES = 2 * HALF_BYTES;
constexpr int QUADS = BM * BN / 4, EACH = (QUADS + SPLITS - 1) / SPLITS;  // of four columns; of one block of the cluster
constexpr int SLAB_BYTES = BM * (BN + PAD) * 4;
constexpr int WARP_BYTES = DEPTH * STAGE_BYTES > SLAB_BYTES ? DEPTH * STAGE_BYTES : SLAB_BYTES;
constexpr int OUT_N = PAIR ? BN / 2 : BN;  // gates are the first half of a tile's columns, their partners the second

// Four neighbouring columns of the tile's sums; pairs lie side by side.
KW_DEVICE void store_quad(float4 x, const Sizes& s, const Ends& ends, int batch, int m, int n0, int column) {
  if constexpr (PAIR)
    store2(paired(x.x, x.y), paired(x.z, x.w), s, ends, batch, 0, m, n0 + column / 2);
  else
    store4(x, s, ends, batch, 0, m, n0 + column);
}

KW_DEVICE void direct_product(const Element* a, const Element* b, const Sizes& s, const Ends& ends) {
  unsigned char* shared = kernelwright::shared_memory();
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, row = lane / 4, t = lane % 4;
  const uint32_t inbox = shared_address(shared) + WARPS * WARP_BYTES, arrived = inbox + SPLITS * EACH * 16;
  // Three dimensions of blocks, so that nobody divides: that alone would take a tenth of a microsecond and more.
  const int rank = int(blockIdx.x % SPLITS), m0 = int(blockIdx.x / SPLITS) * BM, n0 = int(blockIdx.y) * OUT_N;
  const int batch = int(blockIdx.z);
  if constexpr (SPLITS > 1) {
    if (threadIdx.x == 0) {
      kernelwright::barrier_init(arrived, 1);
      kernelwright::barrier_init_fence();
      const int mine = smaller(EACH, QUADS - rank * EACH);
      kernelwright::barrier_expect(arrived, mine > 0 ? SPLITS * mine * 16 : 0);
    }
    __syncwarp();
    kernelwright::cluster_arrive_relaxed();  // nobody sends to a block that is not ready
  }
  // Rows outside stand for the last one: what they give is never stored.
  const Element* left[2 * MI];
  const Element* right[NI];
#pragma unroll
  for (int i = 0; i < 2 * MI; ++i)
    left[i] = a + (size_t(batch) * s.m + smaller(m0 + i * 8 + row, s.m - 1)) * s.k + t * 8;
#pragma unroll
  for (int j = 0; j < NI; ++j) {
    const int column = j * 8 + row, n = n0 + (PAIR ? column % OUT_N : column);
    const int line = smaller(n, s.n - 1) + (PAIR && column >= OUT_N ? s.n : 0);
    right[j] = b + (size_t(batch) * s.n * (PAIR ? 2 : 1) + line) * s.k + t * 8;
  }
  float sums[MI][NI][4];
#pragma unroll
  for (int i = 0; i < MI; ++i)
#pragma unroll
    for (int j = 0; j < NI; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[i][j][e] = 0.f;

  const int pieces = ceil_div(s.k, PIECE), share = rank * WARPS + warp;
  const int begin = pieces * share / (SPLITS * WARPS), count = pieces * (share + 1) / (SPLITS * WARPS) - begin;
  unsigned char* ring = shared + warp * WARP_BYTES + lane * 16;
  const auto bring = [&](int number) {
    unsigned char* to = ring + number % DEPTH * STAGE_BYTES;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int k = (begin + number) * PIECE + half * 32;
      const bool there = k + t * 8 < s.k;
      const uint32_t here = shared_address(to + half * HALF_BYTES);
#pragma unroll
      for (int i = 0; i < 2 * MI; ++i) kernelwright::copy_async<16>(here + i * 512, there ? left[i] + k : left[i], there);
#pragma unroll
      for (int j = 0; j < NI; ++j)
        kernelwright::copy_async<16>(here + (2 * MI + j) * 512, there ? right[j] + k : right[j], there);
    }
  };
  if constexpr (EARLY) kernelwright::grid_wait();
#pragma unroll 1
  for (int number = 0; number < DEPTH; ++number) {
    if (number < count) bring(number);
    kernelwright::copy_commit();
  }
#pragma unroll 1
  for (int number = 0; number < count; ++number) {
    kernelwright::copy_wait<DEPTH - 1>();
    const unsigned char* from = ring + number % DEPTH * STAGE_BYTES;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint4 x[2 * MI], y[NI];
#pragma unroll
      for (int i = 0; i < 2 * MI; ++i) x[i] = *reinterpret_cast<const uint4*>(from + half * HALF_BYTES + i * 512);
#pragma unroll
      for (int j = 0; j < NI; ++j) y[j] = *reinterpret_cast<const uint4*>(from + half * HALF_BYTES + (2 * MI + j) * 512);
#pragma unroll
      for (int i = 0; i < MI; ++i)
#pragma unroll
        for (int j = 0; j < NI; ++j) {
          const uint4 &p = x[2 * i], &q = x[2 * i + 1], &r = y[j];
          const uint32_t first[4] = {p.x, q.x, p.y, q.y}, second[4] = {p.z, q.z, p.w, q.w};
          kernelwright::mma(Kind{}, sums[i][j], first, r.x, r.y);
          kernelwright::mma(Kind{}, sums[i][j], second, r.z, r.w);
        }
    }
    if (number + DEPTH < count) bring(number + DEPTH);
    kernelwright::copy_commit();
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
  kernelwright::copy_wait<0>();
#pragma unroll
  for (int i = 0; i < MI; ++i)
#pragma unroll
    for (int j = 0; j < NI; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int column = j * 8 + t * 2;
        float* to = reinterpret_cast<float*>(shared + warp * WARP_BYTES) + (i * 16 + h * 8 + row) * (BN + PAD);
        if constexpr (PAIR) {
          float* here = to + column % OUT_N * 2 + column / OUT_N;
          here[0] = sums[i][j][2 * h], here[2] = sums[i][j][2 * h + 1];
        } else {
          *reinterpret_cast<float2*>(to + column) = make_float2(sums[i][j][2 * h], sums[i][j][2 * h + 1]);
        }
      }
  __syncthreads();
  if constexpr (SPLITS > 1) kernelwright::cluster_wait();
#pragma unroll 1
  for (int quad = int(threadIdx.x); quad < QUADS; quad += THREADS) {
    const int m = quad / (BN / 4), column = quad % (BN / 4) * 4;
    const unsigned char* from = shared + (m * (BN + PAD) + column) * 4;
    float4 sum = *reinterpret_cast<const float4*>(from);
#pragma unroll
    for (int w = 1; w < WARPS; ++w) {
      const float4 x = *reinterpret_cast<const float4*>(from + w * WARP_BYTES);
      sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
    }
    if constexpr (SPLITS > 1)
      kernelwright::cluster_send(sum, inbox + (rank * EACH + quad % EACH) * 16, arrived, quad / EACH);
    else
      store_quad(sum, s, ends, batch, m0 + m, n0, column);
  }
  if constexpr (SPLITS > 1) {
    kernelwright::barrier_wait(arrived, 0);
#pragma unroll 1
    for (int place = int(threadIdx.x); place < EACH && rank * EACH + place < QUADS; place += THREADS) {
      float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
      for (int from = 0; from < SPLITS; ++from) {
        const float4 x = *reinterpret_cast<const float4*>(shared + WARPS * WARP_BYTES + (from * EACH + place) * 16);
        sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
      }
      const int quad = rank * EACH + place;
      store_quad(sum, s, ends, batch, m0 + quad / (BN / 4), n0, quad % (BN / 4) * 4);
    }
  }
}
