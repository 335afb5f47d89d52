// Sliding windows: a thread makes ROWS by COLUMNS results of one plane from registers, each element read once a thread.
//
// Constants printed before: Element, Out, MAXIMUM, WEIGHTED, and for D, H and W: size, OUT_, TAPS_, STRIDE_ (0: adaptive),
// PAD_, STEP_; ROWS, COLUMNS, VECTOR (neighbours that are read at once where that is aligned), LOOPS (taps one by one,
// for windows of varying or great size). Not here: what follows and where results go (the kernel that calls).
#pragma once

constexpr int REACH_H = (ROWS - 1) * STRIDE_H + (TAPS_H - 1) * STEP_H + 1;
constexpr int REACH_W = (COLUMNS - 1) * STRIDE_W + (TAPS_W - 1) * STEP_W + 1;
__host__ __device__ constexpr bool inside(int size, int made, int taps, int stride, int pad, int step) {
  return pad == 0 && (made - 1) * stride + (taps - 1) * step < size;
}
constexpr bool WHOLE_W = inside(W, OUT_W, TAPS_W, STRIDE_W, PAD_W, STEP_W) && OUT_W % COLUMNS == 0;
constexpr bool WHOLE_H = inside(H, OUT_H, TAPS_H, STRIDE_H, PAD_H, STEP_H) && OUT_H % ROWS == 0;

__device__ __forceinline__ float neutral() { return MAXIMUM ? -kw::inf() : 0.0f; }
__device__ __forceinline__ float joined(float a, float b) { return MAXIMUM ? kw::maximum(a, b) : a + b; }

// The elements of one row that a thread's windows see, from column `first` on.
__device__ __forceinline__ void read_row(float (&to)[REACH_W], const Element* row, int first) {
#pragma unroll
  for (int i = 0; i < REACH_W; ++i) {
    constexpr int V = VECTOR;
    const int within = (i + (V - 1) * PAD_W) % V, group = i - within, w = first + i;
    if (V > 1 && group >= 0 && group + V <= REACH_W) {
      if (within != 0) continue;
      const bool there = WHOLE_W || (w >= 0 && w < W);
      kw::vec<Element, V> got;
      if (there) got = kw::load<V>(row + w);
#pragma unroll
      for (int v = 0; v < V; ++v) to[i + v < REACH_W ? i + v : 0] = there ? kw::value(got[v]) : neutral();
    } else {
      to[i] = WHOLE_W || (w >= 0 && w < W) ? kw::value(row[w]) : neutral();
    }
  }
}

// Folds the windows of rows oh ... and columns ow ... of one plane; `weight` are the taps, where there are any.
template <class Weight>
__device__ __forceinline__ void windows(float (&made)[ROWS][COLUMNS], const Element* plane, const Weight* weight,
                                        float start, int od, int oh, int ow) {
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) made[r][c] = start;
#pragma unroll 1
  for (int tap = 0; tap < TAPS_D; ++tap) {
    const int d = od * STRIDE_D - PAD_D + tap * STEP_D;
    if (d < 0 || d >= D) continue;
#pragma unroll
    for (int i = 0; i < REACH_H; ++i) {
      const int h = oh * STRIDE_H - PAD_H + i;
      float row[REACH_W];
      if (WHOLE_H || (h >= 0 && h < H)) {
        read_row(row, plane + (kw::i64(d) * H + h) * W, ow * STRIDE_W - PAD_W);
      } else {
#pragma unroll
        for (int w = 0; w < REACH_W; ++w) row[w] = neutral();
      }
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const int offset = i - r * STRIDE_H;
        if (offset < 0 || offset % STEP_H != 0 || offset / STEP_H >= TAPS_H) continue;
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
          if constexpr (WEIGHTED) {
#pragma unroll
            for (int t = 0; t < TAPS_W; ++t)
              made[r][c] = fmaf(row[c * STRIDE_W + t * STEP_W], kw::value(weight[offset / STEP_H * TAPS_W + t]), made[r][c]);
          } else {
            float all = row[c * STRIDE_W];
#pragma unroll
            for (int t = 1; t < TAPS_W; ++t) all = joined(all, row[c * STRIDE_W + t * STEP_W]);
            made[r][c] = joined(made[r][c], all);
          }
        }
      }
    }
  }
}

struct Range {
  int begin, end;
};
// The elements of a window along one axis, padding left out.
__device__ __forceinline__ Range range(int i, int size, int made, int taps, int stride, int pad, int step) {
  if (stride == 0) return {int(kw::i64(i) * size / made), int((kw::i64(i + 1) * size + made - 1) / made)};
  const int low = i * stride - pad, high = low + (taps - 1) * step + 1;
  return {low < 0 ? low + (-low + step - 1) / step * step : low, high < size ? high : size};
}
// How many elements an average is over along one axis.
__device__ __forceinline__ float count(int i, int size, int made, int taps, int stride, int pad, bool padding) {
  if (stride == 0 || !padding) {
    const Range all = range(i, size, made, taps, stride, pad, 1);
    return float(all.end - all.begin);
  }
  const int low = i * stride - pad, high = low + taps, most = size + pad;
  return float((high < most ? high : most) - low);
}

// One window, tap by tap.
__device__ __forceinline__ float window(const Element* plane, int od, int oh, int ow) {
  const Range d = range(od, D, OUT_D, TAPS_D, STRIDE_D, PAD_D, STEP_D);
  const Range h = range(oh, H, OUT_H, TAPS_H, STRIDE_H, PAD_H, STEP_H);
  const Range w = range(ow, W, OUT_W, TAPS_W, STRIDE_W, PAD_W, STEP_W);
  float made = neutral();
  for (int z = d.begin; z < d.end; z += STEP_D)
    for (int y = h.begin; y < h.end; y += STEP_H)
      for (int x = w.begin; x < w.end; x += STEP_W) made = joined(made, kw::value(plane[(kw::i64(z) * H + y) * W + x]));
  return made;
}
