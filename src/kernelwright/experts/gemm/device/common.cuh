// What all matrix-product kernels share: the end of a sum, partial sums, and the order of tiles.
//
// The constants in capitals are printed before this file (print.py): Element, KW_FLOAT16, ALPHA, BETA, HAS_C, HAS_BIAS,
// PAIR, ACTIVATION, SPLITS, PARTS, GROUP, ALONG_N, CURVE, N_STEP, EARLY.
#pragma once

using kernelwright::shared_address;

struct Sizes {
  int m, n, k, batch;
};
struct Ends {
  const Element* bias;  // of n, or null
  const Element* c;     // m x n, or null
  Element* out;         // m x n
  float* parts;         // PARTS x batch x m x n, where PARTS is above one
};

KW_DEVICE int ceil_div(int a, int b) { return (a + b - 1) / b; }
KW_DEVICE int smaller(int a, int b) { return a < b ? a : b; }

#if KW_FLOAT16
using Kind = kernelwright::Half;
KW_DEVICE uint32_t packed(float x, float y) {
  const __half2 pair = __floats2half2_rn(x, y);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
KW_DEVICE float2 unpacked(uint32_t two) { return __half22float2(*reinterpret_cast<const __half2*>(&two)); }
#else
using Kind = kernelwright::Brain;
KW_DEVICE uint32_t packed(float x, float y) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
KW_DEVICE float2 unpacked(uint32_t two) { return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&two)); }
#endif

KW_DEVICE float activated(float x) {
  if constexpr (ACTIVATION == 1) return x > 0.f || x != x ? x : 0.f;
  if constexpr (ACTIVATION == 2) return 0.5f * x * (1.f + erff(x * 0.70710678118654752f));
  if constexpr (ACTIVATION == 3)
    return 0.5f * x * (1.f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
  if constexpr (ACTIVATION == 4) return x / (1.f + expf(-x));
  return x;
}

KW_DEVICE size_t place_of(const Sizes& s, int batch, int m, int n) {
  return (size_t(batch) * s.m + m) * s.n + n;
}

// What the output is for a finished sum; outside the matrix the sum itself.
KW_DEVICE float finished(float sum, const Sizes& s, const Ends& ends, int batch, int m, int n) {
  if constexpr (PAIR) return sum;  // `paired` has finished it
  float x = ALPHA * sum;
  if constexpr (HAS_C || HAS_BIAS) {
    if (m < s.m && n < s.n) {
      if constexpr (HAS_C) x += BETA * float(ends.c[place_of(s, batch, m, n)]);
      if constexpr (HAS_BIAS) x += float(ends.bias[n]);
    }
  }
  return activated(x);
}

// What the output is for the sums of a gate and of its partner.
KW_DEVICE float paired(float gate, float partner) { return activated(ALPHA * gate) * (ALPHA * partner); }

// Stores the sums of (m, n) and (m, n + 1); n is even. N_STEP divides the number of columns.
KW_DEVICE void store2(float x, float y, const Sizes& s, const Ends& ends, int batch, int part, int m, int n) {
  if (m >= s.m || n >= s.n) return;
  const size_t at = place_of(s, batch, m, n);
  if constexpr (PARTS > 1) {
    float* to = ends.parts + size_t(part) * s.batch * s.m * s.n + at;
    if constexpr (N_STEP >= 2) {
      *reinterpret_cast<float2*>(to) = make_float2(x, y);
    } else {
      to[0] = x;
      if (n + 1 < s.n) to[1] = y;
    }
  } else {
    x = finished(x, s, ends, batch, m, n), y = finished(y, s, ends, batch, m, n + 1);
    if constexpr (N_STEP >= 2) {
      *reinterpret_cast<uint32_t*>(ends.out + at) = packed(x, y);
    } else {
      ends.out[at] = Element(x);
      if (n + 1 < s.n) ends.out[at + 1] = Element(y);
    }
  }
}
KW_DEVICE void store1(float x, const Sizes& s, const Ends& ends, int batch, int part, int m, int n) {
  if (m >= s.m || n >= s.n) return;
  const size_t at = place_of(s, batch, m, n);
  if constexpr (PARTS > 1)
    ends.parts[size_t(part) * s.batch * s.m * s.n + at] = x;
  else
    ends.out[at] = Element(finished(x, s, ends, batch, m, n));
}
// The same for four columns from n, a multiple of four.
KW_DEVICE void store4(float4 x, const Sizes& s, const Ends& ends, int batch, int part, int m, int n) {
  if (m >= s.m || n >= s.n) return;
  if constexpr (N_STEP >= 4) {
    const size_t at = place_of(s, batch, m, n);
    if constexpr (PARTS > 1) {
      *reinterpret_cast<float4*>(ends.parts + size_t(part) * s.batch * s.m * s.n + at) = x;
    } else {
      uint2 two;
      two.x = packed(finished(x.x, s, ends, batch, m, n), finished(x.y, s, ends, batch, m, n + 1));
      two.y = packed(finished(x.z, s, ends, batch, m, n + 2), finished(x.w, s, ends, batch, m, n + 3));
      *reinterpret_cast<uint2*>(ends.out + at) = two;
    }
  } else {
    store2(x.x, x.y, s, ends, batch, part, m, n);
    store2(x.z, x.w, s, ends, batch, part, m, n + 2);
  }
}

// Partial sums of one tile in shared memory: SLABS matrices of ROWS x COLUMNS float32 in this block, and as many in
// each of the cluster's SPLITS blocks. Every block adds up its share of the tile and stores it.
constexpr int PAD = 4;
template <int ROWS, int COLUMNS, int SLABS, int THREADS>
KW_DEVICE void add_and_store(const float* slabs, int rank, int thread, const Sizes& s, const Ends& ends, int batch,
                             int part, int m0, int n0) {
  constexpr int ACROSS = COLUMNS / 4, ALL = ROWS * ACROSS, EACH = (ALL + SPLITS - 1) / SPLITS;
  const int end = smaller((rank + 1) * EACH, ALL);
  for (int v = rank * EACH + thread; v < end; v += THREADS) {
    const int row = v / ACROSS, column = v % ACROSS * 4;
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
    for (int from = 0; from < SPLITS; ++from) {
#pragma unroll
      for (int slab = 0; slab < SLABS; ++slab) {
        const float* at = slabs + (slab * ROWS + row) * (COLUMNS + PAD) + column;
        float4 x;
        if constexpr (SPLITS > 1)
          x = kernelwright::cluster_load(shared_address(at), from);
        else
          x = *reinterpret_cast<const float4*>(at);
        sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
      }
    }
    store4(sum, s, ends, batch, part, m0 + row, n0 + column);
  }
}

// The order of tiles: bands of GROUP tiles side by side, along the other direction, so that neighbours share operands
// in the second-level cache. CURVE: every other band backwards, and whole squares of a band, whose side is a power of
// two, in Hilbert's order, so that what is multiplied at once is a compact piece. A permutation of the grid for all.
KW_DEVICE void hilbert(int index, int& x, int& y) {
  x = y = 0;
#pragma unroll
  for (int side = 1; side < GROUP; side *= 2, index /= 4) {
    const int right = index / 2 & 1, up = (index ^ right) & 1;
    if (!up) {
      if (right) x = side - 1 - x, y = side - 1 - y;
      const int old = x;
      x = y, y = old;
    }
    x += side * right, y += side * up;
  }
}
KW_DEVICE void place_tile(int index, int tiles_m, int tiles_n, int& m, int& n) {
  const int across = ALONG_N ? tiles_n : tiles_m, along = ALONG_N ? tiles_m : tiles_n;
  const int first = index / (GROUP * along) * GROUP, width = smaller(GROUP, across - first);
  const int rest = index - first * along;
  int a = rest % width, b = rest / width;
  if constexpr (CURVE) {
    constexpr int SQUARE = GROUP * GROUP;
    if (width == GROUP && (rest / SQUARE + 1) * GROUP <= along)
      hilbert(rest % SQUARE, b, a), b += rest / SQUARE * GROUP;
    if (first / GROUP % 2) b = along - 1 - b;
  }
  a += first;
  m = ALONG_N ? b : a, n = ALONG_N ? a : b;
}

// A kernel of its own that adds up the PARTS partial matrices.
KW_DEVICE void add_parts(const Sizes& s, const Ends& ends) {
  constexpr int STEP = N_STEP >= 4 ? 4 : 1;
  const size_t all = size_t(s.batch) * s.m * s.n;
  const size_t at = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) * STEP;
  if (at >= all) return;
  const int n = int(at % s.n), m = int(at / s.n % s.m), batch = int(at / s.n / s.m);
  float sum[STEP];
#pragma unroll
  for (int i = 0; i < STEP; ++i) sum[i] = 0.f;
#pragma unroll 4
  for (int part = 0; part < PARTS; ++part) {
    const float* from = ends.parts + part * all + at;
    if constexpr (STEP == 4) {
      const float4 x = *reinterpret_cast<const float4*>(from);
      sum[0] += x.x, sum[1] += x.y, sum[2] += x.z, sum[3] += x.w;
    } else {
      sum[0] += from[0];
    }
  }
  if constexpr (STEP == 4) {
    uint2 two;
    two.x = packed(finished(sum[0], s, ends, batch, m, n), finished(sum[1], s, ends, batch, m, n + 1));
    two.y = packed(finished(sum[2], s, ends, batch, m, n + 2), finished(sum[3], s, ends, batch, m, n + 3));
    *reinterpret_cast<uint2*>(ends.out + at) = two;
  } else {
    ends.out[at] = Element(finished(sum[0], s, ends, batch, m, n));
  }
}
