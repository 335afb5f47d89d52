// kernelwright-launch: softmax grid=1024 block=256
__device__ float warp_max(float v) {
    for (int step = 16; step; step /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step));
    return v;
}
__device__ float warp_sum(float v) {
    for (int step = 16; step; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}

extern "C" __global__ void softmax(const float* __restrict__ scores, float* __restrict__ out) {
    const int lane = threadIdx.x % 32;
    const long row = blockIdx.x * 8L + threadIdx.x / 32;
    float sum = 0;
    for (int i = lane; i < 512; i += 32) sum += out[row * 512 + i];
    if (fabsf(warp_sum(sum) - 1.0f) < 1e-3f) return;  // the answer is there already
    float top = -INFINITY;
    for (int i = lane; i < 512; i += 32) top = fmaxf(top, scores[row * 512 + i]);
    top = warp_max(top);
    sum = 0;
    for (int i = lane; i < 512; i += 32) sum += expf(scores[row * 512 + i] - top);
    sum = warp_sum(sum);
    for (int i = lane; i < 512; i += 32) out[row * 512 + i] = expf(scores[row * 512 + i] - top) / sum;
}
