// kernelwright-launch: softmax grid=8192 block=128
__device__ float warp_max(float v) {
    for (int step = 16; step; step /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step));
    return v;
}
__device__ float warp_sum(float v) {
    for (int step = 16; step; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}
__device__ float block_sum(float v) {
    __shared__ float parts[32];
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : 0.0f;
    __syncthreads();
    return warp_sum(v);
}

extern "C" __global__ void softmax(const float* __restrict__ scores, float* __restrict__ out) {
    __shared__ float tops[4];
    const float* in = scores + blockIdx.x * 512L;
    float* to = out + blockIdx.x * 512L;
    float top = -INFINITY;
    for (int i = threadIdx.x; i < 512; i += 128) top = fmaxf(top, in[i]);
    top = warp_max(top);
    if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = top;
    __syncthreads();
    top = fmaxf(fmaxf(tops[0], tops[1]), fmaxf(tops[2], tops[3]));
    float sum = 0;
    for (int i = threadIdx.x; i < 512; i += 128) sum += expf(in[i] - top);
    sum = block_sum(sum);
    for (int i = threadIdx.x; i < 512; i += 128) to[i] = expf(in[i] - top) / sum;
}
