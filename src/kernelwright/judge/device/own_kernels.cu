// The judge's own kernels: a probe, what dirties a multiprocessor, and the smallest launches.
extern "C" __global__ void kw_probe(unsigned* out, unsigned n, unsigned key) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = i * 2654435761u ^ key;
}

extern __shared__ unsigned pool[];

extern "C" __global__ void kw_dirty(unsigned pattern, unsigned words, unsigned* sink) {
    for (unsigned i = threadIdx.x; i < words; i += blockDim.x) pool[i] = pattern;
    unsigned held[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) held[i] = pattern ^ (sink ? (unsigned)clock() : 0u);
    __syncthreads();
    unsigned sum = 0;
#pragma unroll
    for (int i = 0; i < 64; ++i) sum += held[i] * (pool[threadIdx.x] | i);
    if (sink && sum == 1u) *sink = sum;
}

extern "C" __global__ void kw_empty() {}

extern "C" __global__ void kw_empty_programmatic() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
