// Runs CUDA C++ on the CPU: what a kernel's source may name, and how its plan starts it.
//
// Covers: threads, blocks and their dimensions; static and dynamic shared memory (the `__shared__` declarations are
//   rewritten by shared_memory.py); barriers, shuffles, votes, reductions; atomics; half types; vector types.
// Does not cover: PTX, tensor cores, asynchronous copies, clusters, cooperative launches; a block that waits for another
//   one (blocks run one after another); how rough fast functions are; how many registers there are; time.
#pragma once
#include "memory.hpp"
#include "numbers.hpp"
#include "warps.hpp"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __inline__ inline
#define __noinline__ __attribute__((noinline))
#define __constant__ static const
#define __grid_constant__
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define __builtin_align__(bytes) alignas(bytes)
#define __builtin_assume(condition) ((void)(condition))
#define __nv_pure__
#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_INF __builtin_inf()
#define CUDART_PI_F 3.141592654f
#define CUDART_SQRT_TWO_F 1.414213562f
#define CUDART_L2E_F 1.442695041f
#define CUDART_LN2_F 0.693147181f
#define CUDART_MAX_NORMAL_F 3.402823466e+38f
#define __CUDACC__ 1
#define __CUDA_ARCH__ 900
