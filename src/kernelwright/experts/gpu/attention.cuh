// Attention on tensor cores: rows of 16 queries a warp, tiles of keys and values in a ring of two in shared memory.
//
// Method source: online softmax (Milakov and Gimelshein, 2018), tiles in registers from product to product
// (FlashAttention-2, Dao 2023); float32 by three products of split operands (Ootomo and Yokota, 2022), small ones first.
// Split operands make NaN of what should stay infinite: a block with a NaN is done over by fused multiply-adds.
// Constants printed before: Element (of q, k, v), WARPS, BN, QUERIES, KEYS, DEPTH, DP, WIDTH, WP (DEPTH and WIDTH, up to
// a multiple of 16), Q_STEP, K_STEP (between elements of a row), Q_COPY, K_COPY, V_COPY (whether 16 bytes are aligned
// along a row), WEIGHTS, VALUES, PAIRS (whether two results are stored at once), GUARDED, HORIZON (keys from query + this
// on are masked), HAS_HORIZON, SCALE, PLAIN (fused multiply-adds at once). Not here: masks and places (the kernel that calls).
#pragma once

constexpr int BM = 16 * WARPS, THREADS = 32 * WARPS, TILES = (KEYS + BN - 1) / BN;
constexpr bool SPLIT = sizeof(Element) == 4;
constexpr int SPARE = 16 / sizeof(Element);  // so that 8 rows of one column lie in different banks
constexpr int K_LINE = DP + SPARE, V_LINE = WP + SPARE;
constexpr int Q_ROOM = BM * K_LINE, K_ROOM = BN * K_LINE, V_ROOM = VALUES ? BN * V_LINE : 0;
constexpr int STEP = SPLIT ? 8 : 16, NJ = BN / 8, NO = VALUES ? WP / 8 : 1;

template <class T> struct Kind { using type = kernelwright::Half; };
template <> struct Kind<__nv_bfloat16> { using type = kernelwright::Brain; };

KW_DEVICE uint32_t packed(float x, float y) {
  const Element two[2] = {kw::to<Element>(x), kw::to<Element>(y)};
  return uint32_t(*reinterpret_cast<const unsigned short*>(two + 1)) << 16 | *reinterpret_cast<const unsigned short*>(two);
}
struct Halves {
  uint32_t big, small;
};
KW_DEVICE Halves halves(float x) {
  const uint32_t big = kernelwright::to_tf32(x);
  const float rest = x - __uint_as_float(big);  // of infinities NaN: a product with them keeps its own
  return {big, rest == rest ? kernelwright::to_tf32(rest) : 0u};
}

// Copies COUNT rows from `first` on; rows from `end` on become zero. `at` gives a row's place; PADDED a line's length.
template <int COUNT, int LENGTH, int PADDED, bool COPY, class At>
KW_DEVICE void copy_rows(Element* to, const Element* from, int first, int end, int step, At at) {
  constexpr int PIECES = LENGTH / SPARE;
  if constexpr (COPY) {
    for (int i = threadIdx.x; i < COUNT * PIECES; i += THREADS) {
      const int row = i / PIECES, piece = i % PIECES * SPARE;
      const bool there = first + row < end;
      const Element* source = there ? from + at(first + row) + piece : from;
      kernelwright::copy_async<16>(kernelwright::shared_address(to + row * PADDED + piece), source, there);
    }
  } else {
    for (int i = threadIdx.x; i < COUNT * LENGTH; i += THREADS) {
      const int row = step == 1 ? i / LENGTH : i % COUNT, column = step == 1 ? i % LENGTH : i / COUNT;
      to[row * PADDED + column] = first + row < end ? from[at(first + row) + kw::i64(column) * step] : Element(0.0f);
    }
  }
}
template <int COUNT, int LENGTH, int PADDED>
KW_DEVICE void clear_margin(Element* to) {
  constexpr int MARGIN = PADDED - SPARE - LENGTH;
  if constexpr (MARGIN > 0)
    for (int i = threadIdx.x; i < COUNT * MARGIN; i += THREADS)
      to[i / MARGIN * PADDED + LENGTH + i % MARGIN] = Element(0.0f);
}

// Scores of 16 queries and BN keys: element e of c[j] is of query lane / 4 + e / 2 * 8, key 8 j + lane % 4 * 2 + e % 2.
KW_DEVICE void products(float (&c)[NJ][4], const Element* q, const Element* k, int lane, bool plain) {
#pragma unroll
  for (int j = 0; j < NJ; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) c[j][e] = 0.0f;
  if (SPLIT && plain) {
    for (int d = 0; d < DP; ++d) {
      const float x = float(q[lane / 4 * K_LINE + d]), y = float(q[(lane / 4 + 8) * K_LINE + d]);
#pragma unroll
      for (int j = 0; j < NJ; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          c[j][e] = fmaf(e < 2 ? x : y, float(k[(8 * j + lane % 4 * 2 + e % 2) * K_LINE + d]), c[j][e]);
    }
    return;
  }
#pragma unroll 4
  for (int d = 0; d < DP; d += STEP) {
    if constexpr (SPLIT) {
      uint32_t big[4], small[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const Halves x = halves(float(q[(lane / 4 + e % 2 * 8) * K_LINE + d + lane % 4 + e / 2 * 4]));
        big[e] = x.big, small[e] = x.small;
      }
#pragma unroll
      for (int j = 0; j < NJ; ++j) {
        const Element* at = k + (8 * j + lane / 4) * K_LINE + d + lane % 4;
        const Halves b0 = halves(float(at[0])), b1 = halves(float(at[4]));
        kernelwright::mma_tf32(c[j], small, b0.big, b1.big);
        kernelwright::mma_tf32(c[j], big, b0.small, b1.small);
        kernelwright::mma_tf32(c[j], big, b0.big, b1.big);
      }
    } else {
      uint32_t a[4];
      kernelwright::ldmatrix4(a, kernelwright::shared_address(q + lane % 16 * K_LINE + d + lane / 16 * 8));
#pragma unroll
      for (int j = 0; j < NJ; j += 2) {
        uint32_t b[4];
        kernelwright::ldmatrix4(
            b, kernelwright::shared_address(k + (8 * j + lane / 16 * 8 + lane % 8) * K_LINE + d + lane / 8 % 2 * 8));
        kernelwright::mma(typename Kind<Element>::type{}, c[j], a, b[0], b[1]);
        kernelwright::mma(typename Kind<Element>::type{}, c[j + 1], a, b[2], b[3]);
      }
    }
  }
}

// o += p v. The keys of a step may be in any order that both operands follow: of float32, lane l holds keys 2 l, 2 l + 1.
KW_DEVICE void weigh(float (&o)[NO][4], const float (&p)[NJ][4], const Element* v, int lane, bool plain) {
  if (SPLIT && plain) {
#pragma unroll
    for (int j = 0; j < NJ; ++j)
#pragma unroll 1
      for (int from = 0; from < 4; ++from)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float x = __shfl_sync(0xffffffffu, p[j][e], lane / 4 * 4 + from);
          const float y = __shfl_sync(0xffffffffu, p[j][2 + e], lane / 4 * 4 + from);
          const Element* at = v + (8 * j + 2 * from + e) * V_LINE + lane % 4 * 2;
#pragma unroll
          for (int n = 0; n < NO; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) o[n][i] = fmaf(i < 2 ? x : y, float(at[8 * n + i % 2]), o[n][i]);
        }
    return;
  }
  if constexpr (SPLIT) {
#pragma unroll
    for (int j = 0; j < NJ; ++j) {
      uint32_t big[4], small[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const Halves x = halves(p[j][e % 2 * 2 + e / 2]);
        big[e] = x.big, small[e] = x.small;
      }
#pragma unroll
      for (int n = 0; n < NO; ++n) {
        const Element* at = v + (8 * j + lane % 4 * 2) * V_LINE + 8 * n + lane / 4;
        const Halves b0 = halves(float(at[0])), b1 = halves(float(at[V_LINE]));
        kernelwright::mma_tf32(o[n], small, b0.big, b1.big);
        kernelwright::mma_tf32(o[n], big, b0.small, b1.small);
        kernelwright::mma_tf32(o[n], big, b0.big, b1.big);
      }
    }
  } else {
#pragma unroll
    for (int j = 0; j < NJ; j += 2) {
      const uint32_t a[4] = {packed(p[j][0], p[j][1]), packed(p[j][2], p[j][3]), packed(p[j + 1][0], p[j + 1][1]),
                             packed(p[j + 1][2], p[j + 1][3])};
#pragma unroll
      for (int n = 0; n < NO; n += 2) {
        uint32_t b[4];
        kernelwright::ldmatrix4_transposed(
            b, kernelwright::shared_address(v + (8 * j + lane % 16) * V_LINE + 8 * n + lane / 16 * 8));
        kernelwright::mma(typename Kind<Element>::type{}, o[n], a, b[0], b[1]);
        kernelwright::mma(typename Kind<Element>::type{}, o[n + 1], a, b[2], b[3]);
      }
    }
  }
}

template <class Out>
KW_DEVICE void put(Out* to, float x, float y, int left) {
  if constexpr (PAIRS) {
    if (left > 0) kw::store<2>(to, kw::vec<Out, 2>{kw::to<Out>(x), kw::to<Out>(y)});
  } else {
    if (left > 0) to[0] = kw::to<Out>(x);
    if (left > 1) to[1] = kw::to<Out>(y);
  }
}
KW_DEVICE float of_row(float x, bool largest) {
#pragma unroll
  for (int bits = 1; bits < 4; bits *= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, x, bits);
    x = largest ? fmaxf(x, other) : x + other;
  }
  return x;
}
// Largest score and sum of exponentials so far, of the two rows of a thread.
struct Rows {
  float top[2], sum[2];
};

// Turns scores into exponentials less the running maximum; what came before is to be multiplied by `old`.
KW_DEVICE void advance(Rows& rows, float (&c)[NJ][4], float (&old)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float top = rows.top[h], sum = 0.0f;
#pragma unroll
    for (int j = 0; j < NJ; ++j) top = fmaxf(top, fmaxf(c[j][2 * h], c[j][2 * h + 1]));
    top = of_row(top, true);
    const float less = top == -kw::inf() ? 0.0f : top;  // no visible key yet: exponentials of -inf are 0
    old[h] = expf(rows.top[h] - less);
#pragma unroll
    for (int j = 0; j < NJ; ++j)
#pragma unroll
      for (int e = 2 * h; e < 2 * h + 2; ++e) c[j][e] = expf(c[j][e] - less), sum += c[j][e];
    rows.sum[h] = rows.sum[h] * old[h] + of_row(sum, false);
    rows.top[h] = top;
  }
}

// One block: BM queries of one head.
template <class QAt, class KAt, class VAt, class Score, class PutWeights, class PutValues>
KW_DEVICE void attention(const Element* q, const Element* k, const Element* v, bool whole, QAt q_at, KAt k_at, VAt v_at,
                         Score score, PutWeights put_weights, PutValues put_values) {
  Element* shared = reinterpret_cast<Element*>(kernelwright::shared_memory());
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first = int(gridDim.x - 1 - blockIdx.x) * BM;  // under a causal mask the last queries have most to do
  Element *q_tile = shared, *ring = shared + Q_ROOM;
  clear_margin<BM, DEPTH, K_LINE>(q_tile);
  for (int i = 0; i < 2; ++i) {
    clear_margin<BN, DEPTH, K_LINE>(ring + i * (K_ROOM + V_ROOM));
    if constexpr (VALUES) clear_margin<BN, WIDTH, V_LINE>(ring + i * (K_ROOM + V_ROOM) + K_ROOM);
  }
  copy_rows<BM, DEPTH, K_LINE, Q_COPY>(q_tile, q, first, QUERIES, Q_STEP, q_at);
  int end = TILES;
  if constexpr (HAS_HORIZON) {
    const int last = first + BM - 1 + HORIZON;  // the first key that no query of this block sees
    if (!whole) end = last <= 0 ? 0 : (last + BN - 1) / BN < TILES ? (last + BN - 1) / BN : TILES;
  }
  const auto copy = [&](int tile, bool values) {
    Element* to = ring + tile % 2 * (K_ROOM + V_ROOM);
    copy_rows<BN, DEPTH, K_LINE, K_COPY>(to, k, tile * BN, KEYS, K_STEP, k_at);
    if constexpr (VALUES)
      if (values) copy_rows<BN, WIDTH, V_LINE, V_COPY>(to + K_ROOM, v, tile * BN, KEYS, 1, v_at);
  };
  const int row = first + warp * 16 + lane / 4;
  const auto each_tile = [&](bool values, bool plain, auto work) {
    if (end > 0) copy(0, values);
    kernelwright::copy_commit();
    for (int tile = 0; tile < end; ++tile) {
      if (tile + 1 < end) copy(tile + 1, values);
      kernelwright::copy_commit();
      kernelwright::copy_wait<1>();
      __syncthreads();
      const Element* at = ring + tile % 2 * (K_ROOM + V_ROOM);
      float c[NJ][4];
      products(c, q_tile + warp * 16 * K_LINE, at, lane, plain);
#pragma unroll
      for (int j = 0; j < NJ; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int query = row + e / 2 * 8, key = tile * BN + 8 * j + lane % 4 * 2 + e % 2;
          c[j][e] = query < QUERIES && key < KEYS ? score(query, key, c[j][e] * SCALE) : -kw::inf();
        }
      work(tile, c, at + K_ROOM);
      __syncthreads();  // the tile has been used before the next but one is copied over it
    }
  };

  Rows rows;
  float o[NO][4], old[2], less[2], share[2];
  const auto clear = [&] {
#pragma unroll
    for (int n = 0; n < NO; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) o[n][e] = 0.0f;
  };
  const auto has_nan = [&] {
    bool found = rows.sum[0] != rows.sum[0] || rows.sum[1] != rows.sum[1];
#pragma unroll
    for (int n = 0; n < NO; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) found |= o[n][e] != o[n][e];
    return __syncthreads_or(found) != 0;
  };
  bool plain = PLAIN;
  for (;; plain = true) {
    rows = {{-kw::inf(), -kw::inf()}, {0.0f, 0.0f}};
    clear();
    each_tile(!WEIGHTS, plain, [&](int, float(&c)[NJ][4], const Element* values) {
      advance(rows, c, old);
      if constexpr (VALUES && !WEIGHTS) {
#pragma unroll
        for (int n = 0; n < NO; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) o[n][e] *= old[e / 2];
        weigh(o, c, values, lane, plain);
      }
    });
    if (!SPLIT || plain || !has_nan()) break;
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    less[h] = rows.top[h] == -kw::inf() ? 0.0f : rows.top[h];
    share[h] = GUARDED && rows.sum[h] == 0.0f ? 0.0f : 1.0f / rows.sum[h];
  }
  if constexpr (WEIGHTS) {
    for (;; plain = true) {
      clear();
      each_tile(VALUES, plain, [&](int tile, float(&c)[NJ][4], const Element* values) {
#pragma unroll
        for (int j = 0; j < NJ; ++j) {
#pragma unroll
          for (int e = 0; e < 4; ++e) c[j][e] = expf(c[j][e] - less[e / 2]) * share[e / 2];
          const int key = tile * BN + 8 * j + lane % 4 * 2;
          if (row < QUERIES) put_weights(row, key, c[j][0], c[j][1]);
          if (row + 8 < QUERIES) put_weights(row + 8, key, c[j][2], c[j][3]);
        }
        if constexpr (VALUES) weigh(o, c, values, lane, plain);
      });
      if (!SPLIT || plain || !VALUES || !has_nan()) break;
    }
    for (int tile = end; tile < TILES; ++tile)  // what the horizon hides
#pragma unroll
      for (int j = 0; j < NJ; ++j) {
        const int key = tile * BN + 8 * j + lane % 4 * 2;
        if (row < QUERIES) put_weights(row, key, 0.0f * share[0], 0.0f * share[0]);
        if (row + 8 < QUERIES) put_weights(row + 8, key, 0.0f * share[1], 0.0f * share[1]);
      }
    share[0] = share[1] = 1.0f;
  }
  if constexpr (VALUES)
#pragma unroll
    for (int n = 0; n < NO; ++n) {
      const int column = 8 * n + lane % 4 * 2;
      if (row < QUERIES) put_values(row, column, o[n][0] * share[0], o[n][1] * share[0]);
      if (row + 8 < QUERIES) put_values(row + 8, column, o[n][2] * share[1], o[n][3] * share[1]);
    }
}

// Whether any of `count` numbers is not finite, a flag for each block.
template <class T>
KW_DEVICE bool any_strange(const T* from, kw::i64 count) {
  bool found = false;
  for (kw::i64 i = kw::i64(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += kw::i64(gridDim.x) * blockDim.x)
    found |= !(fabsf(kw::value(from[i])) < kw::inf());
  return found;
}
