#pragma once
#include "wide.cuh"
template <class T> __device__ auto& pair_at(T* p, int i) { return reinterpret_cast<typename Pair<T>::type*>(p)[i]; }
