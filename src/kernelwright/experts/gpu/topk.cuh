// The k best of a row: the key of the k-th by its four bytes, then those above it and the first equal ones, sorted.
//
// Method source: radix selection (Alabi et al., 2012) with a bitonic sort (Batcher, 1968) of what is found. A key orders
// as PyTorch does: NaN above all, both zeros equal; of equal keys the first place comes first.
// Constants printed before: THREADS (a power of two from 32 on), LENGTH, COUNT, SLOTS (COUNT up to a power of two),
// LARGEST, KEPT (whether a row's keys lie in shared memory). Not here: scores, and what is made of the results.
#pragma once

__device__ __forceinline__ unsigned key_of(float x) {
  const unsigned bits = __float_as_uint(x == 0.0f ? 0.0f : x);
  const unsigned ordered = x != x ? 0xffffffffu : bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
  return LARGEST ? ordered : ~ordered;
}

// Finds the COUNT best of `scores`; every thread of the block sees values and places when it returns.
__device__ __forceinline__ void select_row(const float* scores, float (&values)[COUNT], int (&places)[COUNT]) {
  __shared__ unsigned keys[KEPT ? LENGTH : 1];
  __shared__ unsigned long long items[SLOTS];
  __shared__ int bins[256], digit, left, found;
  const int me = threadIdx.x;
  if constexpr (KEPT)
    for (int j = me; j < LENGTH; j += THREADS) keys[j] = key_of(scores[j]);
  const auto key = [&](int j) { return KEPT ? keys[KEPT ? j : 0] : key_of(scores[j]); };
  for (int i = me; i < SLOTS; i += THREADS) items[i] = 0;
  if (me == 0) left = COUNT, found = 0;
  unsigned bound = 0;
  int equal = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = me; i < 256; i += THREADS) bins[i] = 0;
    __syncthreads();
    for (int j = me; j < LENGTH; j += THREADS) {
      const unsigned x = key(j);
      if (shift == 24 || x >> (shift + 8) == bound >> (shift + 8)) atomicAdd(&bins[x >> shift & 255], 1);
    }
    __syncthreads();
    if (me < 32) {  // from the highest bin down: where the sum reaches what is still wanted
      int sum = 0;
      for (int i = 0; i < 8; ++i) sum += bins[255 - 8 * me - i];
      int before = sum;
      for (int offset = 1; offset < 32; offset *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, before, offset);
        if (me >= offset) before += other;
      }
      before -= sum;
      const int wanted = left;
      __syncwarp();
      if (before < wanted && wanted <= before + sum) {
        int at = 255 - 8 * me;
        while (before + bins[at] < wanted) before += bins[at--];
        digit = at, left = wanted - before;
      }
    }
    __syncthreads();
    bound |= unsigned(digit) << shift;
    equal = bins[digit];
    __syncthreads();
  }
  const int wanted = left;
  const bool ordered = equal != wanted;  // of equal keys only the first are taken
  const auto take = [&](int at, unsigned x, int j) {
    items[at] = static_cast<unsigned long long>(x) << 32 | (0xffffffffu - unsigned(j));
  };
  for (int j = me; j < LENGTH; j += THREADS) {
    const unsigned x = key(j);
    if (x > bound || (!ordered && x == bound)) take(atomicAdd(&found, 1), x, j);
  }
  if (ordered) {
    int before = 0;
    for (int first = 0; first < LENGTH && before < wanted; first += THREADS) {
      const int j = first + me;
      const bool same = j < LENGTH && key(j < LENGTH ? j : 0) == bound;
      const int at = kw::scan<THREADS>(int(same), before, kw::Sum());
      if (same && at < wanted) take(COUNT - wanted + at, bound, j);
    }
  }
  __syncthreads();
  for (int size = 2; size <= SLOTS; size *= 2)
    for (int step = size / 2; step > 0; step /= 2) {
      for (int i = me; i < SLOTS / 2; i += THREADS) {
        const int low = i / step * 2 * step + i % step, high = low + step;
        const unsigned long long a = items[low], b = items[high];
        if ((a < b) == ((low & size) == 0)) items[low] = b, items[high] = a;
      }
      __syncthreads();
    }
  for (int j = me; j < COUNT; j += THREADS) {
    places[j] = int(0xffffffffu - unsigned(items[j] & 0xffffffffu));
    values[j] = scores[places[j]];
  }
  __syncthreads();
}
