// kernelwright-workspace: losses float 64
// kernelwright-launch: row_losses grid=64 block=512
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

extern "C" __global__ void __launch_bounds__(512) row_losses(
    const float* __restrict__ logits, const long long* __restrict__ targets, float* __restrict__ losses) {
    __shared__ float tops[16];
    const float* in = logits + blockIdx.x * 50257L;
    float top = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < 50257; i += 512) {
        const float v = in[i];
        if (v > top) {  // rare after the first few: one exponential for each element
            sum *= expf(top - v);
            top = v;
        }
        sum += top == -INFINITY && v == v ? 0.0f : expf(v - top);
    }
    const float own = top;
    top = warp_max(top);
    if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = top;
    __syncthreads();
    for (int i = 0; i < 16; ++i) top = fmaxf(top, tops[i]);
    sum = block_sum(own == -INFINITY ? sum : sum * expf(own - top));
    if (threadIdx.x == 0) losses[blockIdx.x] = logf(sum) + top - in[targets[blockIdx.x]];
}
extern "C" __global__ void mean_loss(const float* __restrict__ losses, float* __restrict__ out) {
    float sum = 0;
    for (int i = threadIdx.x; i < TOKENS; i += 32) sum += losses[i];
    sum = warp_sum(sum);
    if (threadIdx.x == 0) out[0] = sum / TOKENS;
}
