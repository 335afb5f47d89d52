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

extern "C" __global__ void __launch_bounds__(256) rms_norm(
    const float* __restrict__ hidden_states, const float* __restrict__ weight, float* __restrict__ out) {
    const float4* in = reinterpret_cast<const float4*>(hidden_states + blockIdx.x * 4096L);
    const float4* w = reinterpret_cast<const float4*>(weight);
    float4* to = reinterpret_cast<float4*>(out + blockIdx.x * 4096L);
    float4 v[4];
    float squares = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        v[i] = in[threadIdx.x + 256 * i];
        squares += (v[i].x * v[i].x + v[i].y * v[i].y) + (v[i].z * v[i].z + v[i].w * v[i].w);
    }
    const float scale = rsqrtf(block_sum(squares) / 4096 + 1e-5f);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float4 k = w[threadIdx.x + 256 * i];
        to[threadIdx.x + 256 * i] = make_float4(
            k.x * (v[i].x * scale), k.y * (v[i].y * scale), k.z * (v[i].z * scale), k.w * (v[i].w * scale));
    }
}
