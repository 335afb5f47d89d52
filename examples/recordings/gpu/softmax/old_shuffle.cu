// kernelwright-launch: softmax grid=8192 block=32
extern "C" __global__ void softmax(const float* __restrict__ scores, float* __restrict__ out) {
    float top = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < 512; i += 32) top = fmaxf(top, scores[blockIdx.x * 512L + i]);
    for (int step = 16; step; step /= 2) top = fmaxf(top, warp_shuffle_xor(top, step));
    for (int i = threadIdx.x; i < 512; i += 32) sum += expf(scores[blockIdx.x * 512L + i] - top);
    for (int i = threadIdx.x; i < 512; i += 32) out[blockIdx.x * 512L + i] = expf(scores[blockIdx.x * 512L + i] - top) / sum;
}
