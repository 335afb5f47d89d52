// Products with few rows of A, by dot products in float32: every byte of B is read once, 16 bytes at a time (any
// architecture).
//
// Constants printed before: ROWS (of A, at a time), COLUMNS (of one warp; b n x k) or columns of the block (b k x n),
// WARPS, WARPS_K, STEP_A, STEP_B (elements that can be loaded at once along the contiguous side: 8 or 1), KN, and those
// of common.cuh. WARPS_K warps and SPLITS blocks of a cluster share the sums along k.
#pragma once

constexpr int THREADS = 32 * WARPS;
constexpr int LINES = KN ? COLUMNS / 8 : 0;                          // threads side by side along n, where b is k x n
constexpr int SHARERS = KN ? THREADS / (LINES > 0 ? LINES : 1) : WARPS_K;  // parts of k in a block
constexpr int TILE_N = KN ? COLUMNS : WARPS / WARPS_K * COLUMNS;

// Where rows do not begin at multiples of 16 bytes, neighbouring threads take neighbouring elements instead of eight each.
constexpr int FAR_K = STEP_A == 8 && STEP_B == 8 ? 1 : 32;  // from one element of a lane to its next, where b is n x k
constexpr int FAR_N = STEP_B == 8 ? 1 : LINES;              // the same of a thread along n, where b is k x n
constexpr int FIRST_K = FAR_K == 1 ? 8 : 1, FIRST_N = FAR_N == 1 ? 8 : 1;

// Eight elements from `from`, FAR apart, of which those exist whose distance is below `count`; the others are zero.
template <int STEP, bool ONCE, int FAR = 1>
KW_DEVICE void load8(float (&to)[8], const Element* from, int count) {
  if constexpr (STEP == 8) {
    uint4 got = make_uint4(0, 0, 0, 0);
    if (count > 0) got = ONCE ? kernelwright::load_streaming(from) : __ldg(reinterpret_cast<const uint4*>(from));
    const float2 a = unpacked(got.x), b = unpacked(got.y), c = unpacked(got.z), d = unpacked(got.w);
    to[0] = a.x, to[1] = a.y, to[2] = b.x, to[3] = b.y, to[4] = c.x, to[5] = c.y, to[6] = d.x, to[7] = d.y;
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = i * FAR < count ? float(from[i * FAR]) : 0.f;
  }
}

KW_DEVICE void dot_product(const Element* a, const Element* b, const Sizes& s, const Ends& ends) {
  float* slabs = reinterpret_cast<float*>(kernelwright::shared_memory());
  int at = int(blockIdx.x);
  const int rank = at % SPLITS, tiles_m = ceil_div(s.m, ROWS), tiles_n = ceil_div(s.n, TILE_N);
  at /= SPLITS;
  int tile_m, tile_n;
  place_tile(at % (tiles_m * tiles_n), tiles_m, tiles_n, tile_m, tile_n);
  const int batch = at / (tiles_m * tiles_n), m0 = tile_m * ROWS, n0 = tile_n * TILE_N;
  const Element *a_here = a + size_t(batch) * s.m * s.k, *b_here = b + size_t(batch) * s.n * s.k;
  if constexpr (EARLY) kernelwright::grid_wait();

  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  if constexpr (KN) {
    const int line = int(threadIdx.x) % LINES, share = int(threadIdx.x) / LINES, n = n0 + line * FIRST_N;
    float sums[ROWS][8];
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[r][i] = 0.f;
    for (int k = (rank * SHARERS + share) * 8; k < s.k; k += SPLITS * SHARERS * 8) {
      float right[8][8];
#pragma unroll
      for (int i = 0; i < 8; ++i)
        load8<STEP_B, true, FAR_N>(right[i], b_here + size_t(k + i) * s.n + n, k + i < s.k ? s.n - n : 0);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        float left[8];
        load8<STEP_A, false>(left, a_here + size_t(m0 + r) * s.k + k, m0 + r < s.m ? s.k - k : 0);
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
          for (int j = 0; j < 8; ++j) sums[r][j] += left[i] * right[i][j];
      }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int i = 0; i < 8; ++i) slabs[(share * ROWS + r) * (TILE_N + PAD) + line * FIRST_N + i * FAR_N] = sums[r][i];
  } else {
    const int warp_k = warp % WARPS_K, column = warp / WARPS_K * COLUMNS;
    float sums[ROWS][COLUMNS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) sums[r][c] = 0.f;
#pragma unroll 2
    for (int k = (rank * WARPS_K + warp_k) * 256 + lane * FIRST_K; k < s.k; k += SPLITS * WARPS_K * 256) {
      float right[COLUMNS][8];
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) {
        const int n = n0 + column + c;
        load8<STEP_B, true, FAR_K>(right[c], b_here + size_t(n) * s.k + k, n < s.n ? s.k - k : 0);
      }
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        float left[8];
        load8<STEP_A, false, FAR_K>(left, a_here + size_t(m0 + r) * s.k + k, m0 + r < s.m ? s.k - k : 0);
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
#pragma unroll
          for (int i = 0; i < 8; ++i) sums[r][c] += left[i] * right[c][i];
      }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) {
        float sum = sums[r][c];
#pragma unroll
        for (int far = 16; far; far /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, far);
        if (lane == 0) slabs[(warp_k * ROWS + r) * (TILE_N + PAD) + column + c] = sum;
      }
  }
  if constexpr (EARLY) kernelwright::grid_trigger();
  if constexpr (SPLITS > 1)
    kernelwright::cluster_meet();
  else
    __syncthreads();
  add_and_store<ROWS, TILE_N, SHARERS, THREADS>(slabs, rank, int(threadIdx.x), s, ends, batch, 0, m0, n0);
  if constexpr (SPLITS > 1) kernelwright::cluster_meet();  // nobody leaves while its sums may be read
}
