// kernelwright-launch: softmax grid=1024 block=256
__device__ float warp_max(float v) {
    for (int step = 16; step; step /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step));
    return v;
}
__device__ float warp_sum(float v) {
    for (int step = 16; step; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}

extern "C" __global__ void __launch_bounds__(256) softmax(const float* __restrict__ scores, float* __restrict__ out) {
    const int lane = threadIdx.x % 32;
    const long row = blockIdx.x * 8L + threadIdx.x / 32;
    const float4* in = reinterpret_cast<const float4*>(scores + row * 512);
    float4 v[4];
    float top = -INFINITY;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        v[i] = in[lane + 32 * i];
        top = fmaxf(top, fmaxf(fmaxf(v[i].x, v[i].y), fmaxf(v[i].z, v[i].w)));
    }
    top = warp_max(top);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // a NaN that the maximum lost comes back here
        v[i].x = expf(v[i].x - top);
        v[i].y = expf(v[i].y - top);
        v[i].z = expf(v[i].z - top);
        v[i].w = expf(v[i].w - top);
        sum += (v[i].x + v[i].y) + (v[i].z + v[i].w);
    }
    const float scale = 1.0f / warp_sum(sum);
    float4* to = reinterpret_cast<float4*>(out + row * 512);
#pragma unroll
    for (int i = 0; i < 4; ++i)
        to[lane + 32 * i] = make_float4(v[i].x * scale, v[i].y * scale, v[i].z * scale, v[i].w * scale);
}
