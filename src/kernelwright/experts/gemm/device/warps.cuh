// Products by mma.sync: an asynchronous ring of tiles in shared memory, small tiles, any sizes and alignments (sm_80).
//
// Constants printed before: BM, BN, BK, STAGES, WARPS_M, WARPS_N, WARPS_K, STEP_A, STEP_B (elements that one copy
// moves: 8, 4, 2 or 1), KN (b is k x n, else n x k), and those of common.cuh. A block makes one tile; WARPS_K warps
// share its steps along k, SPLITS blocks of a cluster and PARTS grids its whole k.
#pragma once

constexpr int THREADS = 32 * WARPS_M * WARPS_N * WARPS_K;
constexpr int MI = BM / WARPS_M / 16, NI = BN / WARPS_N / 8;
constexpr int A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2;
constexpr int B_ROWS = KN ? BK : BN, B_COLUMNS = KN ? BN : BK;

// The byte of (row, piece of 8 elements) in a tile of COLUMNS elements a row: pieces are permuted so that 8 rows of one
// column lie in different banks.
template <int COLUMNS>
KW_DEVICE int place_in(int row, int piece) {
  constexpr int PIECES = COLUMNS / 8, LINE = PIECES >= 8 ? 1 : 8 / PIECES, MASK = PIECES >= 8 ? 7 : PIECES - 1;
  return (row * PIECES + (piece ^ (row / LINE & MASK))) * 16;
}

// Copies a tile of ROWS x COLUMNS from (row0, column0) of a matrix of rows x columns; what is outside becomes zero.
template <int ROWS, int COLUMNS, int STEP>
KW_DEVICE void copy_tile(unsigned char* to, const Element* from, int row0, int column0, int rows, int columns) {
  constexpr int ACROSS = COLUMNS / STEP, ALL = ROWS * ACROSS;
  constexpr int TOGETHER = STEP == 1 ? 4 : 16;  // single elements pass through registers
#pragma unroll TOGETHER
  for (int first = 0; first < ALL; first += THREADS) {
    const int i = first + int(threadIdx.x);
    if (ALL % THREADS && i >= ALL) break;
    const int row = i / ACROSS, column = i % ACROSS * STEP;
    const bool there = row0 + row < rows && column0 + column < columns;
    const Element* at = from + (there ? size_t(row0 + row) * columns + column0 + column : 0);
    unsigned char* place = to + place_in<COLUMNS>(row, column / 8) + column % 8 * 2;
    if constexpr (STEP == 1)
      *reinterpret_cast<Element*>(place) = there ? *at : Element(0.f);
    else
      kernelwright::copy_async<STEP * 2>(shared_address(place), at, there);
  }
}

KW_DEVICE void multiply_tile(const unsigned char* a, const unsigned char* b, float (&sums)[MI][NI][4], int warp_m,
                             int warp_n, int warp_k, int lane) {
#pragma unroll
  for (int step = 0; step < BK / 16 / WARPS_K; ++step) {
    const int k = (step * WARPS_K + warp_k) * 16;
    uint32_t left[MI][4], right[NI][2];
#pragma unroll
    for (int i = 0; i < MI; ++i) {
      const int row = (warp_m * MI + i) * 16 + lane % 16;
      kernelwright::ldmatrix4(left[i], shared_address(a + place_in<BK>(row, k / 8 + lane / 16)));
    }
#pragma unroll
    for (int j = 0; j + 1 < NI; j += 2) {
      const int n = (warp_n * NI + j) * 8;
      uint32_t four[4];
      if constexpr (KN)
        kernelwright::ldmatrix4_transposed(four, shared_address(b + place_in<BN>(k + lane % 16, n / 8 + lane / 16)));
      else
        kernelwright::ldmatrix4(
            four, shared_address(b + place_in<BK>(n + lane / 16 * 8 + lane % 8, k / 8 + lane / 8 % 2)));
      right[j][0] = four[0], right[j][1] = four[1], right[j + 1][0] = four[2], right[j + 1][1] = four[3];
    }
    if constexpr (NI % 2 == 1) {
      const int n = (warp_n * NI + NI - 1) * 8;
      if constexpr (KN)
        kernelwright::ldmatrix2_transposed(right[NI - 1], shared_address(b + place_in<BN>(k + lane % 16, n / 8)));
      else
        kernelwright::ldmatrix2(
            right[NI - 1], shared_address(b + place_in<BK>(n + lane % 8, k / 8 + lane / 8 % 2)));
    }
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
      for (int j = 0; j < NI; ++j) kernelwright::mma(Kind{}, sums[i][j], left[i], right[j][0], right[j][1]);
  }
}

KW_DEVICE void warps_product(const Element* a, const Element* b, const Sizes& s, const Ends& ends) {
  unsigned char* shared = kernelwright::shared_memory();
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const int warp_k = warp / (WARPS_M * WARPS_N), warp_m = warp % (WARPS_M * WARPS_N) / WARPS_N, warp_n = warp % WARPS_N;
  int at = int(blockIdx.x);
  const int rank = at % SPLITS, tiles_m = ceil_div(s.m, BM), tiles_n = ceil_div(s.n, BN);
  at /= SPLITS;
  const int tile = at % (tiles_m * tiles_n), other = at / (tiles_m * tiles_n), part = other % PARTS;
  const int batch = other / PARTS, share = part * SPLITS + rank, blocks = ceil_div(s.k, BK);
  const int begin = blocks * share / (SPLITS * PARTS), count = blocks * (share + 1) / (SPLITS * PARTS) - begin;
  int tile_m, tile_n;
  place_tile(tile, tiles_m, tiles_n, tile_m, tile_n);
  const int m0 = tile_m * BM, n0 = tile_n * BN;
  const Element *a_here = a + size_t(batch) * s.m * s.k, *b_here = b + size_t(batch) * s.n * s.k;

  const auto copy = [&](int number) {
    unsigned char* to = shared + number % STAGES * (A_BYTES + B_BYTES);
    const int k0 = (begin + number) * BK;
    copy_tile<BM, BK, STEP_A>(to, a_here, m0, k0, s.m, s.k);
    if constexpr (KN)
      copy_tile<BK, BN, STEP_B>(to + A_BYTES, b_here, k0, n0, s.k, s.n);
    else
      copy_tile<BN, BK, STEP_B>(to + A_BYTES, b_here, n0, k0, s.n, s.k);
  };

  float sums[MI][NI][4];
#pragma unroll
  for (int i = 0; i < MI; ++i)
#pragma unroll
    for (int j = 0; j < NI; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[i][j][e] = 0.f;

  if constexpr (EARLY) kernelwright::grid_wait();
#pragma unroll
  for (int number = 0; number < STAGES - 1; ++number) {
    if (number < count) copy(number);
    kernelwright::copy_commit();
  }
  for (int number = 0; number < count; ++number) {
    kernelwright::copy_wait<STAGES - 2>();
    __syncthreads();  // tile `number` is there for all, and all have used the one before
    if (number + STAGES - 1 < count) copy(number + STAGES - 1);
    kernelwright::copy_commit();
    const unsigned char* tiles = shared + number % STAGES * (A_BYTES + B_BYTES);
    multiply_tile(tiles, tiles + A_BYTES, sums, warp_m, warp_n, warp_k, lane);
  }
  if constexpr (EARLY) kernelwright::grid_trigger();

  if constexpr (WARPS_K == 1 && SPLITS == 1) {
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
      for (int j = 0; j < NI; ++j) {
        const int m = m0 + (warp_m * MI + i) * 16 + lane / 4, n = n0 + (warp_n * NI + j) * 8 + lane % 4 * 2;
        store2(sums[i][j][0], sums[i][j][1], s, ends, batch, part, m, n);
        store2(sums[i][j][2], sums[i][j][3], s, ends, batch, part, m + 8, n);
      }
  } else {
    kernelwright::copy_wait<0>();
    __syncthreads();
    float* slabs = reinterpret_cast<float*>(shared);
#pragma unroll
    for (int i = 0; i < MI; ++i)
#pragma unroll
      for (int j = 0; j < NI; ++j) {
        const int row = warp_k * BM + (warp_m * MI + i) * 16 + lane / 4, column = (warp_n * NI + j) * 8 + lane % 4 * 2;
        float* to = slabs + row * (BN + PAD) + column;
        *reinterpret_cast<float2*>(to) = make_float2(sums[i][j][0], sums[i][j][1]);
        *reinterpret_cast<float2*>(to + 8 * (BN + PAD)) = make_float2(sums[i][j][2], sums[i][j][3]);
      }
    if constexpr (SPLITS > 1)
      kernelwright::cluster_meet();
    else
      __syncthreads();
    add_and_store<BM, BN, WARPS_K, THREADS>(slabs, rank, int(threadIdx.x), s, ends, batch, part, m0, n0);
    if constexpr (SPLITS > 1) kernelwright::cluster_meet();  // nobody leaves while its sums may be read
  }
}
