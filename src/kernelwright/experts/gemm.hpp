// Products of float matrices: packed panels, a register tile of MR rows by NV vectors, sums in blocks of KC.
//
// The scheme is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008). How operands
// are read and what happens to a finished tile is the caller's: `Rows` and `Columns` copy a panel of an operand, which
// may as well be the windows of a convolution; `Done` gets each vector of the result.
// Sums: KC terms in a register, then one addition to what the blocks before gave.
#pragma once
#include <omp.h>
#include "simd.hpp"

namespace kw {

// r[i][j] becomes r[j][i], in log2(N) rounds of exchanges between rows.
template <int N> KW_INLINE void transpose(vec<float, N> (&r)[N]) {
    for (int h = N / 2; h > 0; h /= 2) {
        mask<N> low, high;
        for (int l = 0; l < N; ++l) {
            low[l] = l & h ? N + l - h : l;
            high[l] = l & h ? N + l : l + h;
        }
#pragma GCC unroll 16
        for (int i = 0; i < N; ++i) {
            if (i & h) continue;
            const vec<float, N> a = r[i], b = r[i + h];
#ifdef __clang__
            for (int l = 0; l < N; ++l) { r[i][l] = low[l] < N ? a[low[l]] : b[low[l] - N];
                                          r[i + h][l] = high[l] < N ? a[high[l]] : b[high[l] - N]; }
#else
            r[i] = __builtin_shuffle(a, b, low);
            r[i + h] = __builtin_shuffle(a, b, high);
#endif
        }
    }
}

// Copies of a matrix x[i * SI + k * SK] in panels of W values of i: out[k * W + i], what lies outside is zero.
// `from` is the first i, `rows` how many there are from it on (1 ... W).
template <int N, int W, int64_t SI, int64_t SK>
KW_INLINE void pack(const float* x, int64_t rows, int64_t k0, int64_t kn, float* out) {
    if (rows >= W && SI == 1 && W % N == 0) {
        for (int64_t k = 0; k < kn; ++k)
            for (int v = 0; v < W; v += N) store(out + k * W + v, load<float, N>(x + v + (k0 + k) * SK));
        return;
    }
    int64_t done = 0;
    if (rows >= W && SK == 1 && W % N == 0) {
        for (; done + N <= kn; done += N)
            for (int v = 0; v < W; v += N) {
                vec<float, N> r[N];
                for (int i = 0; i < N; ++i) r[i] = load<float, N>(x + (v + i) * SI + k0 + done);
                transpose<N>(r);
                for (int i = 0; i < N; ++i) store(out + (done + i) * W + v, r[i]);
            }
    }
    for (int64_t i = 0; i < W; ++i)
        for (int64_t k = done; k < kn; ++k) out[k * W + i] = i < rows ? x[i * SI + (k0 + k) * SK] : 0.0f;
}

template <int N, int MR, int NV>
KW_INLINE void tile(const float* a, const float* b, int64_t kn, vec<float, N> (&sum)[MR][NV]) {
    for (int64_t k = 0; k < kn; ++k) {
        vec<float, N> right[NV];
#pragma GCC unroll 8
        for (int v = 0; v < NV; ++v) right[v] = load<float, N>(b + k * (N * NV) + v * N);
#pragma GCC unroll 32
        for (int i = 0; i < MR; ++i) {
            const vec<float, N> left = broadcast<vec<float, N>>(a[k * MR + i]);
#pragma GCC unroll 8
            for (int v = 0; v < NV; ++v) sum[i][v] = fma(left, right[v], sum[i][v]);
        }
    }
}

// The part of an M x K by K x N product in rows [m0, m1) and columns [n0, n1), by one thread that waits for no other:
// packing an operand once for each thread that needs it costs less than a barrier for each block.
//   rows(i, n, k0, kn, out)     copies n <= MR rows from i on, as `pack` does
//   columns(j, n, k0, kn, out)  copies n <= N * NV columns from j on
//   done(i, j, n, sum)          takes n <= N results of row i from column j on
// `partial` holds M x N sums between blocks of K; it is not touched where K <= KC.
template <int N, int MR, int NV, int64_t KC, int64_t MC, int64_t NC, class Rows, class Columns, class Done>
KW_INLINE void product(int64_t m0, int64_t m1, int64_t n0, int64_t n1, int64_t k, int64_t whole, float* column_panels,
                       float* row_panels, float* partial, Rows rows, Columns columns, Done done) {
    typedef vec<float, N> V;
    constexpr int64_t W = N * NV;
    for (int64_t j0 = n0; j0 < n1; j0 += NC) {
        const int64_t jn = j0 + NC < n1 ? NC : n1 - j0, strips = (jn + W - 1) / W;
        for (int64_t k0 = 0; k0 < k; k0 += KC) {
            const int64_t kn = k0 + KC < k ? KC : k - k0;
            for (int64_t s = 0; s < strips; ++s)
                columns(j0 + s * W, jn - s * W < W ? jn - s * W : W, k0, kn, column_panels + s * W * KC);
            for (int64_t i0 = m0; i0 < m1; i0 += MC) {
                const int64_t in = i0 + MC < m1 ? MC : m1 - i0;
                for (int64_t i = 0; i < in; i += MR)
                    rows(i0 + i, in - i < MR ? in - i : MR, k0, kn, row_panels + i * KC);
                for (int64_t s = 0; s < strips; ++s)
                    for (int64_t i = 0; i < in; i += MR) {
                        V sum[MR][NV] = {};
                        tile<N, MR, NV>(row_panels + i * KC, column_panels + s * W * KC, kn, sum);
                        const int64_t high = in - i < MR ? in - i : MR;
                        for (int r = 0; r < high; ++r)
                            for (int v = 0; v < NV; ++v) {
                                const int64_t row = i0 + i + r, column = j0 + s * W + v * N, wide = n1 - column;
                                if (wide <= 0) break;
                                const int lanes = wide < N ? int(wide) : N;
                                float* before = partial + row * whole + column;
                                if (k0) sum[r][v] += load_part<float, N>(before, lanes, 0.0f);
                                if (k0 + kn < k) store_part(before, sum[r][v], lanes);
                                else done(row, column, lanes, sum[r][v]);
                            }
                    }
            }
        }
    }
}

// Whether every one of `count` floats is finite.
KW_INLINE bool all_finite(const float* x, int64_t count, int threads) {
    constexpr int N = 16;
    const int64_t pieces = (count + 65535) / 65536;
    int found = 0;
#pragma omp parallel for num_threads(threads) reduction(| : found)
    for (int64_t p = 0; p < pieces; ++p) {
        const int64_t to = (p + 1) * 65536 < count ? (p + 1) * 65536 : count;
        vec<float, N> zeros[2] = {};
        int64_t i = p * 65536;
        for (; i + 2 * N <= to; i += 2 * N) {
            zeros[0] += load<float, N>(x + i) * 0.0f;
            zeros[1] += load<float, N>(x + i + N) * 0.0f;
        }
        zeros[0] += zeros[1];
        for (; i < to; ++i) zeros[0][0] += x[i] * 0.0f;
        found |= any(to_mask(zeros[0] != 0.0f));  // NaN differs from everything
    }
    return !found;
}

}  // namespace kw
