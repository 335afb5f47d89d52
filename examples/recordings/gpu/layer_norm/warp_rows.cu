// kernelwright-launch: layer_norm grid=512 block=256
__device__ float warp_sum(float v) {
    for (int step = 16; step; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}

extern "C" __global__ void __launch_bounds__(256) layer_norm(
    const float* __restrict__ x, const float* __restrict__ norm_weight, const float* __restrict__ norm_bias,
    float* __restrict__ out) {
    const int lane = threadIdx.x % 32;
    const long row = blockIdx.x * 8L + threadIdx.x / 32;
    const float4* in = reinterpret_cast<const float4*>(x + row * 768);
    float4 v[6];
    float sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < 6; ++i) {
        v[i] = in[lane + 32 * i];
        sum += (v[i].x + v[i].y) + (v[i].z + v[i].w);
    }
    const float mean = warp_sum(sum) / 768;
#pragma unroll
    for (int i = 0; i < 6; ++i) {
        v[i] = make_float4(v[i].x - mean, v[i].y - mean, v[i].z - mean, v[i].w - mean);
        squares += (v[i].x * v[i].x + v[i].y * v[i].y) + (v[i].z * v[i].z + v[i].w * v[i].w);
    }
    const float scale = rsqrtf(warp_sum(squares) / 768 + 1e-12f);
#pragma unroll
    for (int i = 0; i < 6; ++i) {
        const float4 w = reinterpret_cast<const float4*>(norm_weight)[lane + 32 * i];
        const float4 b = reinterpret_cast<const float4*>(norm_bias)[lane + 32 * i];
        reinterpret_cast<float4*>(out + row * 768)[lane + 32 * i] = make_float4(
            v[i].x * scale * w.x + b.x, v[i].y * scale * w.y + b.y, v[i].z * scale * w.z + b.z, v[i].w * scale * w.w + b.w);
    }
}
