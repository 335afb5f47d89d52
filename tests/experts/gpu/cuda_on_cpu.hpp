// Runs CUDA C++ kernels on the CPU: every thread of a block is a fiber, barriers and shuffles switch between them.
//
// Covers: threadIdx/blockIdx and their dimensions, __shared__ (static), __syncthreads, full-warp shuffles, half types by
//   conversion, the conversions and rounding intrinsics that device.cuh uses. A barrier that not all threads reach ends
//   the program. Fibers run in ascending or descending order between barriers (KW_DESCENDING), so that a missing barrier shows.
// Does not cover: PTX, atomics, dynamic shared memory, anything asynchronous, or how fast it is.
#pragma once
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __restrict__ __restrict

struct dim3_t { unsigned x, y, z; };
static dim3_t threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {
struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  bool done = true;
  int waits = 0;  // 0 runs, 1 at the block's barrier, 2 at its warp's
};
static std::vector<Fiber> fibers;
static ucontext_t scheduler;
static int current;
static void (*body)();
static unsigned char lanes[1024][16];

static void pause(int kind) {
  Fiber& me = fibers[current];
  me.waits = kind;
  swapcontext(&me.context, &scheduler);
}
static void start() {
  body();
  fibers[current].done = true;
}
static bool all_wait(int from, int to, int kind) {
  for (int i = from; i < to; ++i)
    if (!fibers[i].done && fibers[i].waits != kind) return false;
  return true;
}
static void release(int from, int to) {
  for (int i = from; i < to; ++i) fibers[i].waits = 0;
}
static void run_block(int threads) {
  if (int(fibers.size()) < threads) fibers.resize(threads);
  for (int i = 0; i < threads; ++i) {
    Fiber& f = fibers[i];
    f.stack.resize(1 << 16);
    f.done = false;
    f.waits = 0;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.data();
    f.context.uc_stack.ss_size = f.stack.size();
    f.context.uc_link = &scheduler;
    makecontext(&f.context, start, 0);
  }
  for (;;) {
    bool moved = false, left = false;
    for (int n = 0; n < threads; ++n) {
#ifdef KW_DESCENDING
      const int i = threads - 1 - n;
#else
      const int i = n;
#endif
      if (fibers[i].done) continue;
      left = true;
      if (fibers[i].waits) continue;
      current = i;
      threadIdx = {unsigned(i), 0, 0};
      swapcontext(&scheduler, &fibers[i].context);
      moved = true;
    }
    if (!left) return;
    for (int w = 0; w < threads; w += 32) {
      const int end = w + 32 < threads ? w + 32 : threads;
      bool any = false;
      for (int i = w; i < end; ++i) any |= !fibers[i].done && fibers[i].waits == 2;
      if (any && all_wait(w, end, 2)) release(w, end), moved = true;
    }
    if (all_wait(0, threads, 1)) release(0, threads), moved = true;
    if (!moved) {
      std::fprintf(stderr, "a barrier is not reached by all threads\n");
      std::abort();
    }
  }
}
template <class F>
void launch(unsigned blocks, unsigned threads, F kernel) {
  static F* held;
  held = &kernel;
  body = [] { (*held)(); };
  gridDim = {blocks, 1, 1};
  blockDim = {threads, 1, 1};
  for (unsigned b = 0; b < blocks; ++b) {
    blockIdx = {b, 0, 0};
    run_block(int(threads));
  }
}
template <class T>
T exchange(T x, int from) {
  static_assert(sizeof(T) <= 16);
  const int me = current, warp = me / 32 * 32;
  std::memcpy(lanes[me], &x, sizeof x);
  pause(2);
  T y;
  std::memcpy(&y, lanes[warp + from], sizeof y);
  threadIdx = {unsigned(me), 0, 0};
  pause(2);
  return y;
}
}  // namespace emulation

inline void __syncthreads() { emulation::pause(1); }
template <class T>
T __shfl_xor_sync(unsigned, T x, int offset, int = 32) { return emulation::exchange(x, (emulation::current % 32) ^ offset); }
template <class T>
T __shfl_up_sync(unsigned, T x, int offset, int width = 32) {
  const int lane = emulation::current % 32, low = lane / width * width;
  return emulation::exchange(x, lane - offset < low ? lane : lane - offset);
}
template <class T>
T __shfl_sync(unsigned, T x, int from, int width = 32) {
  return emulation::exchange(x, emulation::current % 32 / width * width + from % width);
}

struct __half { uint16_t bits; };
struct __nv_bfloat16 { uint16_t bits; };
inline float __half2float(__half h) { _Float16 x; std::memcpy(&x, &h, 2); return float(x); }
inline __half __float2half_rn(float f) { const _Float16 x = _Float16(f); __half h; std::memcpy(&h, &x, 2); return h; }
inline float __bfloat162float(__nv_bfloat16 b) { uint32_t u = uint32_t(b.bits) << 16; float f; std::memcpy(&f, &u, 4); return f; }
inline __nv_bfloat16 __float2bfloat16_rn(float f) {
  uint32_t u;
  std::memcpy(&u, &f, 4);
  if (f != f) return {uint16_t(u >> 16 | 0x40)};
  return {uint16_t((u + 0x7fff + (u >> 16 & 1)) >> 16)};
}
inline float __int_as_float(int i) { float f; std::memcpy(&f, &i, 4); return f; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __fadd_rn(float a, float b) { volatile float s = a + b; return s; }
inline double __dadd_rn(double a, double b) { volatile double s = a + b; return s; }
