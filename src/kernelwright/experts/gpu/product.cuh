// Products of programs: operands read where they lie (strided matrices, windows of a convolution), any sizes, and what
// follows done on registers.
//
// `tensor_product` multiplies on tensor cores. A float32 is the sum of three bfloat16 (8 bits each): six products of
// parts are all above 2^-25 of the whole; each step's are added up from zero and then added to the sum with one
// rounding, since tensor cores cut what they add to a large sum (Ootomo and Yokota, 2022, for TF32; Henry, Tang and
// Heinecke, 2019, for bfloat16 triples). Half types are one part. `plain_product` multiplies by fused multiply-adds.
// An answer that is no finite number is summed again, one by one, as the reference has it: parts of an infinity are
// not what the infinity is.
//
// An operand is a struct with: at (its elements), STEP (elements side by side that are loaded at once), ALONG_K
// (whether they lie along k), line(number) -> Line (what is known of a row of the first or a column of the second) and
// find(line, k), where an element lies, negative where there is none.
#pragma once
#include <kernelwright_warps.h>

namespace kw {

constexpr float LARGEST = 3.402823466e+38f;
__device__ __forceinline__ bool finite(float x) { return x <= LARGEST && x >= -LARGEST; }

// Sets the flag where something is not finite.
template <class T>
__device__ __forceinline__ void look(const T* __restrict__ at, i64 count, int* __restrict__ flag) {
  bool odd = false;
  for (i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += i64(gridDim.x) * blockDim.x)
    odd = odd || !finite(value(at[i]));
  if (odd) atomicOr(flag, 1);
}

// ---- operands
template <class Operand>
__device__ __forceinline__ float one(const Operand& x, const typename Operand::Line& line, int k) {
  const auto at = x.find(line, k);
  return at >= 0 ? value(x.at[at]) : 0.0f;
}
template <class Left, class Right>
__device__ __forceinline__ float whole_sum(const Left& left, const Right& right, int row, int column, int k_size) {
  const auto across = left.line(row);
  const auto down = right.line(column);
  float total = 0.0f;
#pragma unroll 1
  for (int k0 = 0; k0 < k_size; k0 += 64) {
    float sum = 0.0f;
    for (int k = k0; k < k_size && k < k0 + 64; ++k) sum = fmaf(one(left, across, k), one(right, down, k), sum);
    total += sum;
  }
  return total;
}

// Sums that came out as no finite number are summed again: `odd` has a bit for each sum of a thread, `where` tells its
// place. Outside the loops over sums, so that only one copy of this is compiled.
template <class Left, class Right, class Done, class Where>
__device__ __forceinline__ void sum_again(unsigned long long odd, const Left& left, const Right& right, const Done& done,
                                          const Where& where) {
  if constexpr (Done::WHOLE) {
#pragma unroll 1
    for (int number = 0; odd != 0; ++number, odd >>= 1) {
      if (!(odd & 1)) continue;
      int row, column;
      where(number, row, column);
      done(row, column, whole_sum(left, right, row, column, Done::K));
    }
  }
}

// Brings a tile of LINES x DEPTH into registers and lays it down in shared memory.
template <class Operand, int LINES, int DEPTH, int THREADS>
struct Tile {
  static constexpr int STEP = Operand::STEP, ALL = LINES * DEPTH / STEP, EACH = (ALL + THREADS - 1) / THREADS;
  static constexpr int ACROSS = (Operand::ALONG_K ? DEPTH : LINES) / STEP;  // pieces of one row of the tile
  static constexpr bool EVEN = THREADS % ACROSS == 0;  // then every piece of a thread is at one place along the row
  static constexpr bool ONE_LINE = EVEN && !Operand::ALONG_K;
  float held[EACH][STEP];
  typename Operand::Line kept;

  __device__ __forceinline__ static bool place(int u, int& line, int& k) {
    const unsigned me = threadIdx.x, i = u * THREADS + me;
    const int side = int(EVEN ? me % ACROSS : i % ACROSS) * STEP;
    const int other = int(EVEN ? u * (THREADS / ACROSS) + me / ACROSS : i / ACROSS);
    line = Operand::ALONG_K ? other : side, k = Operand::ALONG_K ? side : other;
    return ALL % THREADS == 0 || i < ALL;
  }
  __device__ __forceinline__ void begin(const Operand& x, int line0) {
    int line, k;
    place(0, line, k);
    if constexpr (ONE_LINE) kept = x.line(line0 + line);
  }
  __device__ __forceinline__ void fetch(const Operand& x, int line0, int k0) {
#pragma unroll
    for (int u = 0; u < EACH; ++u) {
      int line, k;
      const bool there = place(u, line, k);
      const auto at = x.find(ONE_LINE ? kept : x.line(line0 + line), k0 + k);
#pragma unroll
      for (int e = 0; e < STEP; ++e) held[u][e] = 0.0f;
      if (there && at >= 0) {
        const auto got = load<STEP>(x.at + at);
#pragma unroll
        for (int e = 0; e < STEP; ++e) held[u][e] = value(got[e]);
      }
    }
  }
};

// ------------------------------------------------------------------------------------------------------ tensor cores

// The nearest bfloat16, as a float; cut instead where that would be an infinity. What is not finite stays so.
__device__ __forceinline__ float brain_part(float x) {
  const unsigned all = 0x7f800000u, bits = __float_as_uint(x), near = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
  return __uint_as_float((bits & all) == all || (near & all) == all ? bits & 0xffff0000u : near);
}
__device__ __forceinline__ unsigned short bits_of(kernelwright::Brain, float part) {
  return static_cast<unsigned short>(__float_as_uint(part) >> 16);
}
__device__ __forceinline__ unsigned short bits_of(kernelwright::Half, float part) {
  return __half_as_ushort(__float2half_rn(part));
}
__device__ __forceinline__ float part_of(kernelwright::Brain, float x) { return brain_part(x); }
__device__ __forceinline__ float part_of(kernelwright::Half, float x) { return x; }

// The byte of (row, piece of 8 elements) in a tile of COLUMNS elements a row: pieces are permuted so that 8 rows of one
// column lie in different banks.
template <int COLUMNS>
__device__ __forceinline__ int piece_at(int row, int piece) {
  constexpr int PIECES = COLUMNS / 8, LINE = PIECES >= 8 ? 1 : 8 / PIECES, MASK = PIECES >= 8 ? 7 : PIECES - 1;
  return (row * PIECES + (piece ^ (row / LINE & MASK))) * 16;
}

template <class Kind, int PARTS, class Operand, int LINES, int DEPTH, int THREADS>
__device__ __forceinline__ void lay_down(const Tile<Operand, LINES, DEPTH, THREADS>& tile, unsigned char* to) {
  using T = Tile<Operand, LINES, DEPTH, THREADS>;
  constexpr int STEP = T::STEP;
#pragma unroll
  for (int u = 0; u < T::EACH; ++u) {
    int line, k;
    if (!T::place(u, line, k)) continue;
    const int row = Operand::ALONG_K ? line : k, column = Operand::ALONG_K ? k : line;
    unsigned char* at = to + piece_at<(Operand::ALONG_K ? DEPTH : LINES)>(row, column / 8) + column % 8 * 2;
    float rest[STEP];
#pragma unroll
    for (int e = 0; e < STEP; ++e) rest[e] = tile.held[u][e];
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
      vec<unsigned short, STEP> out;
#pragma unroll
      for (int e = 0; e < STEP; ++e) {
        const float taken = PARTS == 1 ? rest[e] : part_of(Kind{}, rest[e]);
        out[e] = bits_of(Kind{}, taken);
        rest[e] -= taken;
      }
      *reinterpret_cast<vec<unsigned short, STEP>*>(at + part * LINES * DEPTH * 2) = out;
    }
  }
}

// S: BM, BN, BK, WARPS_M, WARPS_N, PARTS (of an element). `done(row, column, sum)` takes what lies in [0, rows) x
// [0, columns). k runs over [k0, k1), of which k0 is a multiple of BK.
template <class S, class Kind, class Left, class Right, class Done>
__device__ __forceinline__ void tensor_product(const Left& left, const Right& right, int m0, int n0, int k0, int k1,
                                               const Done& done) {
  constexpr int THREADS = 32 * S::WARPS_M * S::WARPS_N, MI = S::BM / S::WARPS_M / 16, NI = S::BN / S::WARPS_N / 8;
  constexpr int LEFT = S::BM * S::BK * 2, RIGHT = S::BN * S::BK * 2, BOTH = S::PARTS * (LEFT + RIGHT);
  static_assert(NI % 2 == 0, "columns of a warp come in sixteens");
  unsigned char* shared = kernelwright::shared_memory();
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const int warp_m = warp / S::WARPS_N * MI * 16, warp_n = warp % S::WARPS_N * NI * 8;
  float sums[MI][NI][4];
#pragma unroll
  for (int i = 0; i < MI; ++i)
#pragma unroll
    for (int j = 0; j < NI; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[i][j][e] = 0.0f;
  Tile<Left, S::BM, S::BK, THREADS> a;
  Tile<Right, S::BN, S::BK, THREADS> b;
  a.begin(left, m0), b.begin(right, n0);
  a.fetch(left, m0, k0), b.fetch(right, n0, k0);
  int buffer = 0;
  for (int k = k0; k < k1; k += S::BK, buffer ^= 1) {
    unsigned char *a_at = shared + buffer * BOTH, *b_at = a_at + S::PARTS * LEFT;
    lay_down<Kind, S::PARTS>(a, a_at);
    lay_down<Kind, S::PARTS>(b, b_at);
    __syncthreads();  // this buffer is full, and all have read the other one
    if (k + S::BK < k1) a.fetch(left, m0, k + S::BK), b.fetch(right, n0, k + S::BK);
    // Steps one after the other where fragments are many: side by side they do not fit into registers.
#pragma unroll(S::PARTS == 1 ? S::BK / 16 : 1)
    for (int inner = 0; inner < S::BK; inner += 16) {
      unsigned y[S::PARTS][NI][2];
#pragma unroll
      for (int part = 0; part < S::PARTS; ++part)
#pragma unroll
        for (int j = 0; j < NI; j += 2) {
          const int n = warp_n + j * 8;
          unsigned four[4];
          if constexpr (Right::ALONG_K)
            kernelwright::ldmatrix4(four, kernelwright::shared_address(
                b_at + part * RIGHT + piece_at<S::BK>(n + lane / 16 * 8 + lane % 8, inner / 8 + lane / 8 % 2)));
          else
            kernelwright::ldmatrix4_transposed(four, kernelwright::shared_address(
                b_at + part * RIGHT + piece_at<S::BN>(inner + lane % 16, n / 8 + lane / 16)));
          y[part][j][0] = four[0], y[part][j][1] = four[1], y[part][j + 1][0] = four[2], y[part][j + 1][1] = four[3];
        }
#pragma unroll
      for (int i = 0; i < MI; ++i) {
        const int m = warp_m + i * 16;
        unsigned x[S::PARTS][4];
#pragma unroll
        for (int part = 0; part < S::PARTS; ++part)
          if constexpr (Left::ALONG_K)
            kernelwright::ldmatrix4(x[part], kernelwright::shared_address(
                a_at + part * LEFT + piece_at<S::BK>(m + lane % 16, inner / 8 + lane / 16)));
          else
            kernelwright::ldmatrix4_transposed(x[part], kernelwright::shared_address(
                a_at + part * LEFT + piece_at<S::BM>(inner + lane / 16 * 8 + lane % 8, m / 8 + lane / 8 % 2)));
#pragma unroll
        for (int j = 0; j < NI; ++j) {
          if constexpr (S::PARTS == 1) {
            kernelwright::mma(Kind{}, sums[i][j], x[0], y[0][j][0], y[0][j][1]);
          } else {
            float step[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
            for (int order = S::PARTS - 1; order >= 0; --order)  // the smallest first
#pragma unroll
              for (int p = 0; p <= order; ++p)
                kernelwright::mma(Kind{}, step, x[p], y[order - p][j][0], y[order - p][j][1]);
#pragma unroll
            for (int e = 0; e < 4; ++e) sums[i][j][e] += step[e];
          }
        }
      }
    }
  }
  const auto where = [&](int number, int& row, int& column) {
    const int e = number % 4, j = number / 4 % NI, i = number / 4 / NI;
    row = m0 + warp_m + i * 16 + lane / 4 + e / 2 * 8, column = n0 + warp_n + j * 8 + lane % 4 * 2 + e % 2;
  };
  unsigned long long odd = 0;
#pragma unroll
  for (int number = 0; number < MI * NI * 4; ++number) {
    int row, column;
    where(number, row, column);
    const float sum = sums[number / 4 / NI][number / 4 % NI][number % 4];
    done(row, column, sum);
    odd |= static_cast<unsigned long long>(!finite(sum)) << number;
  }
  sum_again(odd, left, right, done, where);
}

// -------------------------------------------------------------------------------------------- fused multiply-adds

template <class Operand, int LINES, int DEPTH, int THREADS>
__device__ __forceinline__ void lay_down_plain(const Tile<Operand, LINES, DEPTH, THREADS>& tile, float* to) {
  using T = Tile<Operand, LINES, DEPTH, THREADS>;
#pragma unroll
  for (int u = 0; u < T::EACH; ++u) {
    int line, k;
    if (!T::place(u, line, k)) continue;
#pragma unroll
    for (int e = 0; e < T::STEP; ++e)
      to[(Operand::ALONG_K ? k + e : k) * (LINES + 4) + (Operand::ALONG_K ? line : line + e)] = tile.held[u][e];
  }
}

// S: BM, BN, BK, TM, TN (sums of a thread, multiples of 4).
template <class S, class Left, class Right, class Done>
__device__ __forceinline__ void plain_product(const Left& left, const Right& right, int m0, int n0, int k0, int k1,
                                              const Done& done) {
  constexpr int ACROSS = S::BN / S::TN, THREADS = S::BM / S::TM * ACROSS;
  constexpr int LEFT = S::BK * (S::BM + 4), BOTH = LEFT + S::BK * (S::BN + 4);
  float* shared = reinterpret_cast<float*>(kernelwright::shared_memory());
  const int down = int(threadIdx.x) / ACROSS * 4, across = int(threadIdx.x) % ACROSS * 4;
  float sums[S::TM][S::TN];
#pragma unroll
  for (int i = 0; i < S::TM; ++i)
#pragma unroll
    for (int j = 0; j < S::TN; ++j) sums[i][j] = 0.0f;
  Tile<Left, S::BM, S::BK, THREADS> a;
  Tile<Right, S::BN, S::BK, THREADS> b;
  a.begin(left, m0), b.begin(right, n0);
  a.fetch(left, m0, k0), b.fetch(right, n0, k0);
  int buffer = 0;
  for (int k = k0; k < k1; k += S::BK, buffer ^= 1) {
    float *a_at = shared + buffer * BOTH, *b_at = a_at + LEFT;
    lay_down_plain(a, a_at);
    lay_down_plain(b, b_at);
    __syncthreads();
    if (k + S::BK < k1) a.fetch(left, m0, k + S::BK), b.fetch(right, n0, k + S::BK);
#pragma unroll 4
    for (int inner = 0; inner < S::BK; ++inner) {
      float x[S::TM], y[S::TN];
#pragma unroll
      for (int i = 0; i < S::TM; i += 4) {
        const auto four = load<4>(a_at + inner * (S::BM + 4) + i * (S::BM / S::TM) + down);
#pragma unroll
        for (int e = 0; e < 4; ++e) x[i + e] = four[e];
      }
#pragma unroll
      for (int j = 0; j < S::TN; j += 4) {
        const auto four = load<4>(b_at + inner * (S::BN + 4) + j * ACROSS + across);
#pragma unroll
        for (int e = 0; e < 4; ++e) y[j + e] = four[e];
      }
#pragma unroll
      for (int i = 0; i < S::TM; ++i)
#pragma unroll
        for (int j = 0; j < S::TN; ++j) sums[i][j] = fmaf(x[i], y[j], sums[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < S::TM; ++i)
#pragma unroll
    for (int j = 0; j < S::TN; ++j)
      done(m0 + i / 4 * 4 * (S::BM / S::TM) + down + i % 4, n0 + j / 4 * 4 * ACROSS + across + j % 4, sums[i][j]);
}

// The order of tiles: bands of eight rows of tiles, so that neighbours share operands in the second-level cache.
__device__ __forceinline__ void band_of(int index, int tiles_m, int tiles_n, int& m, int& n) {
  constexpr int GROUP = 8;
  const int first = index / (GROUP * tiles_n) * GROUP, width = tiles_m - first < GROUP ? tiles_m - first : GROUP;
  const int rest = index - first * tiles_n;
  m = first + rest % width, n = rest / width;
}

}  // namespace kw
