#pragma once
#include <cuda_bf16.h>
template <class T> struct Pair;
template <> struct Pair<__nv_bfloat16> { using type = __nv_bfloat162; };
template <> struct Pair<const __nv_bfloat16> { using type = const __nv_bfloat162; };
