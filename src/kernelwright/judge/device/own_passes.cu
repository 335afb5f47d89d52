// What the judge does to whole tensors, each in one pass over memory: sealing, comparing, summing, renewing.
//
// Read through passes.py, where each kernel's arguments are named. All grids are strides; every count is of elements
// or bytes as its name says. `key` 0 means that nothing is sealed.
typedef unsigned long long u64;
typedef unsigned int u32;

enum Kind { kFloat, kDouble, kHalf, kBfloat };
constexpr u32 kBinades = 2200;

// Philox 4x32-10 (Salmon et al., 2011): block `counter` of the stream of `key`.
__device__ inline uint4 stream(u64 key, u64 counter) {
  u32 a = (u32)counter, b = (u32)(counter >> 32), c = 0, d = 0, low = (u32)key, high = (u32)(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u32 h0 = __umulhi(0xD2511F53u, a), l0 = 0xD2511F53u * a;
    const u32 h1 = __umulhi(0xCD9E8D57u, c), l1 = 0xCD9E8D57u * c;
    a = h1 ^ b ^ low, b = l1, c = h0 ^ d ^ high, d = l0;
    low += 0x9E3779B9u, high += 0xBB67AE85u;
  }
  uint4 made;
  made.x = a, made.y = b, made.z = c, made.w = d;
  return made;
}
__device__ inline u32 part(uint4 block, u32 at) { return at == 0 ? block.x : at == 1 ? block.y : at == 2 ? block.z : block.w; }
__device__ inline u64 pair_of(u32 low, u32 high) { return (u64)high << 32 | low; }
__device__ inline u64 word(const u64* words, u64 at, u64 key) {
  if (!key) return words[at];
  const uint4 block = stream(key, at >> 1);
  return words[at] ^ (at & 1 ? pair_of(block.z, block.w) : pair_of(block.x, block.y));
}

__device__ inline float of_half(u32 bits) {
  const u32 sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, rest = bits & 0x3ffu;
  if (exponent == 31u) return __uint_as_float(sign | 0x7f800000u | rest << 13);
  if (exponent) return __uint_as_float(sign | (exponent + 112u) << 23 | rest << 13);
  const float small = (float)rest * 5.9604644775390625e-8f;
  return sign ? -small : small;
}
__device__ inline u32 to_half(float x) {  // cut off, never beyond the largest number
  const u32 bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u, all = bits & 0x7fffffffu;
  if (all >= 0x477fe000u) return sign | (all > 0x7f800000u ? 0x7e00u : all == 0x7f800000u ? 0x7c00u : 0x7bffu);
  if (all >= 0x38800000u) return sign | ((all - 0x38000000u) >> 13);
  const u32 shift = 126u - (all >> 23);
  return sign | (shift > 24u ? 0u : ((all & 0x7fffffu) | 0x800000u) >> shift);
}
__device__ inline u32 to_bfloat(float x) {
  const u32 bits = __float_as_uint(x);
  return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
__device__ inline void load4(const void* from, u32 kind, u64 at, u64 count, double* into) {
  const u32 whole = at + 4 <= count ? 4 : (u32)(count - at);
  if (kind == kFloat && whole == 4) {
    const float4 four = *(const float4*)((const float*)from + at);
    into[0] = four.x, into[1] = four.y, into[2] = four.z, into[3] = four.w;
    return;
  }
  if (kind >= kHalf && whole == 4) {
    const uint2 two = *(const uint2*)((const unsigned short*)from + at);
    const u32 bits[4] = {two.x & 0xffffu, two.x >> 16, two.y & 0xffffu, two.y >> 16};
    for (int k = 0; k < 4; ++k) into[k] = kind == kHalf ? of_half(bits[k]) : __uint_as_float(bits[k] << 16);
    return;
  }
  for (u32 k = 0; k < 4; ++k) {
    if (k >= whole) into[k] = 0.0;
    else if (kind == kFloat) into[k] = ((const float*)from)[at + k];
    else if (kind == kDouble) into[k] = ((const double*)from)[at + k];
    else if (kind == kHalf) into[k] = of_half(((const unsigned short*)from)[at + k]);
    else into[k] = __uint_as_float((u32)((const unsigned short*)from)[at + k] << 16);
  }
}

// As magnitudes.kinds: 0 finite, 1 NaN, 2 and 3 the infinities.
__device__ inline u32 kind_of(double x) { return x != x ? 1u : fabs(x) <= 1.7976931348623157e308 ? 0u : x > 0 ? 2u : 3u; }
// As magnitudes.exponents, counted from the lowest.
__device__ inline u32 binade(double x, int lowest) {
  if (x == 0.0) return 0;
  const int above = (int)(((u64)__double_as_longlong(x) >> 52) & 0x7ffu) - 1022 - lowest;
  return above < 0 ? 0u : above >= (int)kBinades ? kBinades - 1 : (u32)above;
}
__device__ inline u64 add_warp(u64 x) {
  for (int by = 16; by; by >>= 1) x += __shfl_down_sync(0xffffffffu, x, by);
  return x;
}
__device__ inline void add_to(u64* into, u64 x) {
  x = add_warp(x);
  if (threadIdx.x % 32 == 0 && x) atomicAdd(into, x);
}
// Numbers that are not negative have the order of their bits.
__device__ inline void largest_to(u64* into, double x) {
  u64 bits = (u64)__double_as_longlong(x);
  for (int by = 16; by; by >>= 1) {
    const u64 other = __shfl_down_sync(0xffffffffu, bits, by);
    bits = other > bits ? other : bits;
  }
  if (threadIdx.x % 32 == 0 && bits) atomicMax(into, bits);
}

#define EACH(i, count) \
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < (count); i += (u64)gridDim.x * blockDim.x)

extern "C" __global__ void kw_seal(unsigned char* data, u64 bytes, u64 key) {
  EACH(i, (bytes + 15) / 16) {
    const uint4 block = stream(key, i);
    if (16 * i + 16 <= bytes) {
      uint4* at = (uint4*)data + i;
      uint4 held = *at;
      held.x ^= block.x, held.y ^= block.y, held.z ^= block.z, held.w ^= block.w;
      *at = held;
    } else {
      for (u32 k = 0; 16 * i + k < bytes; ++k) data[16 * i + k] ^= (unsigned char)(part(block, k / 4) >> 8 * (k % 4));
    }
  }
}

extern __shared__ float columns[];

// FloatBound.check on sealed truth. found: worst ratio, elements beyond, elements of another kind, squares by group.
extern "C" __global__ void kw_within(const void* out, u32 kind, u64 count, const u64* truth, u64 truth_key,
                                     const u32* marks, u64 marks_key, const double* per_error, const double* per_rms,
                                     const short* group, int lowest, u32 groups, u64* found) {
  for (u32 g = 0; g < groups; ++g) columns[g * blockDim.x + threadIdx.x] = 0.0f;
  double worst = 0.0;
  u64 beyond = 0, different = 0;
  EACH(i, (count + 3) / 4) {
    const u64 at = 4 * i;
    double given[4];
    load4(out, kind, at, count, given);
    u32 mark = 0;
    if (marks) mark = marks[i] ^ (marks_key ? part(stream(marks_key, i >> 2), (u32)i & 3u) : 0u);
    u64 bits[4];
    for (int half = 0; half < 2; ++half) {
      const u64 first = at + 2 * half;
      uint4 block;
      block.x = block.y = block.z = block.w = 0;
      if (truth_key) block = stream(truth_key, first >> 1);
      u64 one = 0, two = 0;
      if (first + 1 < count) {
        const ulonglong2 both = *(const ulonglong2*)(truth + first);
        one = both.x, two = both.y;
      } else if (first < count) {
        one = truth[first];
      }
      bits[2 * half] = one ^ pair_of(block.x, block.y), bits[2 * half + 1] = two ^ pair_of(block.z, block.w);
    }
    for (int k = 0; k < 4; ++k) {
      if (at + k >= count) break;
      const u32 mine = mark >> 8 * k, wanted = mine & 3u, own = mine >> 2 & 3u, is = kind_of(given[k]);
      const bool odd = wanted | own;
      if (is != wanted && is != own) ++different;
      if (is | wanted | (mine & 16u)) continue;
      const double right = __longlong_as_double((long long)bits[k]), error = fabs(given[k] - right);
      if (error == 0.0) continue;
      const u32 b = odd ? 0u : binade(right, lowest);
      const double ratio = error * per_error[b];
      if (!(ratio <= 1.0)) ++beyond;
      worst = ratio > worst ? ratio : worst;
      const float share = (float)(error * per_rms[b]);
      if (!odd) columns[group[b] * blockDim.x + threadIdx.x] += share * share;
    }
  }
  largest_to(found, worst), add_to(found + 1, beyond), add_to(found + 2, different);
  __syncthreads();
  for (u32 g = threadIdx.x; g < groups; g += blockDim.x) {
    double sum = 0.0;
    for (u32 k = 0; k < blockDim.x; ++k) sum += columns[g * blockDim.x + (k + g) % blockDim.x];
    if (sum != 0.0) atomicAdd((double*)found + 3 + g, sum);
  }
}

// The elements that may err by their own change.
extern "C" __global__ void kw_within_own(const void* out, u32 kind, u64 count, const u64* truth, u64 truth_key,
                                         const u64* places, u64 places_key, const u64* allowed, u64 allowed_key,
                                         u64 listed, u64* found) {
  double worst = 0.0;
  u64 beyond = 0;
  EACH(i, listed) {
    const u64 at = word(places, i, places_key);
    double given[4];
    load4(out, kind, at & ~3ull, count, given);
    const double mine = given[at & 3ull];
    if (kind_of(mine)) continue;  // counted as different where the truth is finite
    const double right = __longlong_as_double((long long)word(truth, at, truth_key));
    const double ratio = fabs(mine - right) / __longlong_as_double((long long)word(allowed, i, allowed_key));
    if (!(ratio <= 1.0)) ++beyond;
    worst = ratio > worst ? ratio : worst;
  }
  largest_to(found, worst), add_to(found + 1, beyond);
}

// found: elements that hold one pattern in `a` and another in `b`, words that differ.
extern "C" __global__ void kw_pair(const u64* a, const u64* b, u64 bytes, u32 width, u32 first, u32 second, u64* found) {
  const u64 one = first * 0x0101010101010101ull, two = second * 0x0101010101010101ull;
  const u64 mask = width == 8 ? ~0ull : (1ull << 8 * width) - 1;
  u64 left = 0, differing = 0;
  EACH(i, (bytes + 15) / 16) {
    u64 mine[2] = {0, 0}, theirs[2] = {0, 0};
    u32 held[2] = {8, 8};
    if (16 * i + 16 <= bytes) {
      const ulonglong2 x = ((const ulonglong2*)a)[i], y = ((const ulonglong2*)b)[i];
      mine[0] = x.x, mine[1] = x.y, theirs[0] = y.x, theirs[1] = y.y;
    } else {
      const u32 rest = (u32)(bytes - 16 * i);
      held[0] = rest < 8 ? rest : 8, held[1] = rest < 8 ? 0 : rest - 8;
      for (u32 k = 0; k < rest; ++k) {
        mine[k / 8] |= (u64)((const unsigned char*)a)[16 * i + k] << 8 * (k % 8);
        theirs[k / 8] |= (u64)((const unsigned char*)b)[16 * i + k] << 8 * (k % 8);
      }
    }
    for (int k = 0; k < 2; ++k) {
      differing += mine[k] != theirs[k];
      const u64 other = (mine[k] ^ one) | (theirs[k] ^ two);
      for (u32 at = 0; at < held[k]; at += width) left += (other >> 8 * at & mask) == 0;
    }
  }
  add_to(found, left), add_to(found + 1, differing);
}

// One sum over the bits of each row, every word with a weight of its own.
extern "C" __global__ void kw_sums(const unsigned char* base, u64 stride, const long long* rows, u64 bytes, u64* sums) {
  const unsigned char* row = base + stride * (u64)rows[blockIdx.y];
  u64 sum = 0;
  EACH(i, (bytes + 15) / 16) {
    if (16 * i + 16 <= bytes) {
      const uint4 four = ((const uint4*)row)[i];
      sum += four.x * (8 * i + 1) + four.y * (8 * i + 3) + four.z * (8 * i + 5) + four.w * (8 * i + 7);
    } else {
      for (u64 k = 16 * i; k < bytes; ++k) sum += row[k] * (2 * k + 1);
    }
  }
  add_to(sums + blockIdx.y, sum);
}

// Profile.agrees. found: elements that lie further apart than two right answers.
extern "C" __global__ void kw_agree(const void* out, const void* own, u32 kind, u64 count, const double* allowed,
                                    int lowest, u64* found) {
  u64 apart = 0;
  EACH(i, (count + 3) / 4) {
    double ours[4], theirs[4];
    load4(out, kind, 4 * i, count, ours), load4(own, kind, 4 * i, count, theirs);
    for (int k = 0; k < 4; ++k) {
      const double a = ours[k], b = theirs[k];
      const double most = allowed[binade(kind_of(b) ? 0.0 : b, lowest)];
      apart += !(a == b || (a != a && b != b) || fabs(a - b) <= most);
    }
  }
  add_to(found, apart);
}

// DeviceRefresher: each element of a source times a factor of its own; where a row resembles another, most of that.
// rows: row, source and the bits of `change` for each; kept is what lies before `first` or from `end` on, but for
// every `apart`-th element from `offset`, and for what is wild there.
extern "C" __global__ void kw_renew(unsigned char* base, u64 stride, const long long* rows, const void* source0,
                                    const void* source1, const void* source2, const void* source3, u32 kind, u64 count,
                                    double low, double high, u64 key, const void* other, u64 first, u64 end, u64 apart,
                                    u64 offset, double wild) {
  const long long* mine = rows + 3 * blockIdx.y;
  const void* source = mine[1] == 0 ? source0 : mine[1] == 1 ? source1 : mine[1] == 2 ? source2 : source3;
  unsigned char* row = base + stride * (u64)mine[0];
  const double change = __longlong_as_double(mine[2]);
  EACH(i, (count + 3) / 4) {
    const uint4 block = stream(key + blockIdx.y, i);
    double fresh[4], kept[4];
    load4(source, kind, 4 * i, count, fresh);
    if (other) load4(other, kind, 4 * i, count, kept);
    for (u32 k = 0; k < 4; ++k) {
      const u64 at = 4 * i + k;
      fresh[k] *= 1.0 + change * ((double)part(block, k) * 2.3283064365386963e-10);
      fresh[k] = fresh[k] < low ? low : fresh[k] > high ? high : fresh[k];
      const bool keeps = other && (at < first || at >= end) && at % apart != offset;
      if (keeps && fabs(kept[k]) < wild) fresh[k] = kept[k];
    }
    if (4 * i + 4 <= count && kind == kFloat) {
      float4 four;
      four.x = (float)fresh[0], four.y = (float)fresh[1], four.z = (float)fresh[2], four.w = (float)fresh[3];
      ((float4*)row)[i] = four;
      continue;
    }
    if (4 * i + 4 <= count && kind >= kHalf) {
      u32 bits[4];
      for (int k = 0; k < 4; ++k) bits[k] = kind == kHalf ? to_half((float)fresh[k]) : to_bfloat((float)fresh[k]);
      uint2 two;
      two.x = bits[0] | bits[1] << 16, two.y = bits[2] | bits[3] << 16;
      ((uint2*)row)[i] = two;
      continue;
    }
    for (u32 k = 0; k < 4 && 4 * i + k < count; ++k) {
      if (kind == kFloat) ((float*)row)[4 * i + k] = (float)fresh[k];
      else if (kind == kDouble) ((double*)row)[4 * i + k] = fresh[k];
      else ((unsigned short*)row)[4 * i + k] = (unsigned short)(kind == kHalf ? to_half((float)fresh[k]) : to_bfloat((float)fresh[k]));
    }
  }
}
