// kernelwright-launch: rms_norm grid=512 block=256
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

extern "C" __global__ void rms_norm(
    const float* __restrict__ hidden_states, const float* __restrict__ weight, float* __restrict__ out) {
    const float* in = hidden_states + blockIdx.x * 4096L;
    float squares = 0;
    for (int i = threadIdx.x; i < 4096; i += 256) squares += in[i] * in[i];
    const float scale = rsqrtf(block_sum(squares) / 4096 + 1e-5f);
    for (int i = threadIdx.x; i < 4096; i += 256) out[blockIdx.x * 4096L + i] = in[i] * scale;
}
