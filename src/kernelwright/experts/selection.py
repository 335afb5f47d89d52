"""C++ that finds the k largest (or smallest) elements of a row, in PyTorch's order.

The quick way: the k-th largest of the lanes' maxima bounds the k-th largest element from below, so that one more
pass keeps only a few elements, which are ranked by comparing all with all. Where a row has a NaN, equal values
among its k best, or too many that pass, the row is done over as PyTorch on the CPU does it: by the standard
library's partial_sort, or nth_element and sort, of (value, index) with the same comparison, so that indices of
equal values come out the same. Not here: reading and writing around the selection (topk.py).
"""

from __future__ import annotations


def selection_code(
    *, rows: int, length: int, count: int, largest: bool, filtered: bool, lanes: int, groups: int
) -> str:
    """Returns helpers that define `select_row(scores, values, indices)` and softmax of a small row.

    Args:
        rows: how many rows there are.
        length: elements of a row.
        count: k.
        largest: whether large values come first.
        filtered: whether to try the quick way.
        lanes: floats in a vector.
        groups: vectors of maxima; groups * lanes is at least k.
    """
    padded = -(-count // lanes) * lanes
    room = -(-max(64, 4 * count) // lanes) * lanes
    before = "x.value > y.value" if largest else "x.value < y.value"
    nan_first = "x.value != x.value && y.value == y.value" if largest else "x.value == x.value && y.value != y.value"
    text = f"""\
#include <stdlib.h>

#include <algorithm>

typedef kw::vec<float, {lanes}> V;
constexpr int LANES = {lanes}, GROUPS = {groups};
constexpr int64_t ROWS = {rows};
constexpr int LENGTH = {length}, COUNT = {count}, PADDED = {padded}, ROOM = {room};

struct Entry {{
    float value;
    int64_t index;
}};
{_SOFTMAX}
// As PyTorch orders: NaN counts as the largest.
static inline bool before(const Entry& x, const Entry& y) {{ return ({nan_first}) || {before}; }}

static __attribute__((noinline)) void select_by_library(const float* scores, float* values, int64_t* indices) {{
    Entry* entries = static_cast<Entry*>(malloc(LENGTH * sizeof(Entry)));
    for (int j = 0; j < LENGTH; ++j) entries[j] = {{scores[j], j}};
    if (COUNT * int64_t(64) <= LENGTH) {{
        std::partial_sort(entries, entries + COUNT, entries + LENGTH, before);
    }} else {{
        std::nth_element(entries, entries + COUNT - 1, entries + LENGTH, before);
        std::sort(entries, entries + COUNT - 1, before);
    }}
    for (int j = 0; j < COUNT; ++j) {{
        values[j] = entries[j].value;
        indices[j] = entries[j].index;
    }}
    free(entries);
}}
"""
    if not filtered:
        return text + _PLAIN
    return text + _FILTER.replace("@", "" if largest else "-")


_SOFTMAX = """
// Softmax of n numbers in place; `top` is the largest. Lanes beyond the n-th are scratch.
static inline __attribute__((unused)) void softmax_row(float* row, int n, float top) {
    V sums = {};
    for (int j = 0; j < n; j += LANES) {
        V e = kw::exp(kw::load<float, LANES>(row + j) - top);
        if (n - j < LANES) e = kw::select(kw::first<LANES>(n - j), e, V{});
        sums += e;
        kw::store(row + j, e);
    }
    const float total = kw::sum(sums);
    for (int j = 0; j < n; j += LANES) kw::store(row + j, kw::load<float, LANES>(row + j) / total);
}

static inline __attribute__((unused)) float row_top(const float* row, int n) {
    V top = kw::broadcast<V>(-__builtin_inff());
    for (int j = 0; j < n; j += LANES)
        top = kw::maximum(top, kw::load_part<float, LANES>(row + j, n - j, -__builtin_inff()));
    return kw::largest(top);
}
"""

_PLAIN = """
static inline void select_row(const float* scores, float* values, int64_t* indices) {
    select_by_library(scores, values, indices);
}
"""

_FILTER = """
// One bit for each lane that is true.
template <class M> static KW_INLINE uint32_t bits(M m) {
    constexpr int N = kw::lanes<M>;
#if KW_GCC_X86 && defined(__AVX512DQ__)
    if constexpr (N == 16) return uint16_t(__builtin_ia32_cvtd2mask512(m));
#endif
#if KW_GCC_X86 && defined(__AVX__)
    if constexpr (N == 8) return uint32_t(__builtin_ia32_movmskps256(kw::bitcast<kw::vec<float, N>>(m)));
#endif
    uint32_t found = 0;
    for (int i = 0; i < N; ++i) found |= uint32_t(m[i] != 0) << i;
    return found;
}

// A number that at least COUNT elements reach: the COUNT-th largest of the lanes' maxima. NaN when there is a NaN.
static inline float lower_bound(const float* scores) {
    constexpr int STRIDE = GROUPS * LANES, WHOLE = LENGTH / STRIDE * STRIDE;
    V top[GROUPS];
    for (int g = 0; g < GROUPS; ++g) top[g] = kw::broadcast<V>(-__builtin_inff());
    for (int j = 0; j < WHOLE; j += STRIDE)
#pragma GCC unroll 16
        for (int g = 0; g < GROUPS; ++g)
            top[g] = kw::maximum(top[g], @kw::load<float, LANES>(scores + j + g * LANES));
    for (int j = WHOLE; j < LENGTH; j += LANES) {
        const V x = @kw::load_part<float, LANES>(scores + j, LENGTH - j, @(-__builtin_inff()));
        const int g = (j - WHOLE) / LANES;
        top[g] = kw::maximum(top[g], x);
    }
    // Ranks of all maxima: how many are larger.
    kw::mask<LANES> rank[GROUPS] = {};
    kw::mask<LANES> strange = {};
    for (int g = 0; g < GROUPS; ++g) strange |= kw::to_mask(top[g] != top[g]);
    if (bits(strange)) return __builtin_nanf("");
    alignas(64) float maxima[STRIDE];
    for (int g = 0; g < GROUPS; ++g) kw::store(maxima + g * LANES, top[g]);
    for (int i = 0; i < STRIDE; ++i) {
        const V one = kw::broadcast<V>(maxima[i]);
#pragma GCC unroll 16
        for (int g = 0; g < GROUPS; ++g) rank[g] -= kw::to_mask(one > top[g]);
    }
    V least = kw::broadcast<V>(__builtin_inff());
    for (int g = 0; g < GROUPS; ++g)
        least = kw::minimum(least, kw::select(kw::to_mask(rank[g] < COUNT), top[g], least));
    return kw::smallest(least);
}

static inline void select_row(const float* scores, float* values, int64_t* indices) {
    const float bound = lower_bound(scores);
    alignas(64) float kept[ROOM + LANES];
    int place[ROOM + LANES];
    int n = 0;
    bool simple = bound == bound;
    for (int j = 0; simple && j < LENGTH; j += LANES) {
        const V x = @kw::load_part<float, LANES>(scores + j, LENGTH - j, 0.0f);
        uint32_t found = bits(kw::to_mask(x >= bound));
        if (LENGTH - j < LANES) found &= (1u << (LENGTH - j)) - 1;
        if (!found) continue;
        if (n + __builtin_popcount(found) > ROOM) {
            simple = false;
            break;
        }
        for (; found; found &= found - 1) {
            const int at = j + __builtin_ctz(found);
            kept[n] = @scores[at];
            place[n++] = at;
        }
    }
    if (simple) {
        for (int i = n; i < n + LANES; ++i) kept[i] = -__builtin_inff();
        for (int i = 0; i < n && simple; ++i) {
            const V one = kw::broadcast<V>(kept[i]);
            int rank = 0, equal = 0;
            for (int j = 0; j < n; j += LANES) {
                const V x = kw::load<float, LANES>(kept + j);
                rank += __builtin_popcount(bits(kw::to_mask(x > one)));
                equal += __builtin_popcount(bits(kw::to_mask(x == one)));
            }
            if (rank >= COUNT) continue;
            simple = equal == 1;
            values[rank] = @kept[i];
            indices[rank] = place[i];
        }
    }
    if (!simple) select_by_library(scores, values, indices);
}
"""
