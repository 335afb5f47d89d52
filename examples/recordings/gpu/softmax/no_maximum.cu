// kernelwright-launch: softmax grid=8192 block=128
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
    const float* in = scores + blockIdx.x * 512L;
    float e[4], sum = 0;
    for (int i = 0; i < 4; ++i) sum += e[i] = expf(in[threadIdx.x + 128 * i]);
    sum = block_sum(sum);
    for (int i = 0; i < 4; ++i) out[blockIdx.x * 512L + threadIdx.x + 128 * i] = e[i] / sum;
}
