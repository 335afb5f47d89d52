// kernelwright-launch: swiglu grid=2752 block=256
__device__ float gated(float g, float u) { return g * __saturatef(g / 6.0f + 0.5f) * u; }
extern "C" __global__ void swiglu(const float* __restrict__ gate, const float* __restrict__ up, float* __restrict__ out) {
    const long i = blockIdx.x * 256L + threadIdx.x;
    const float4 g = reinterpret_cast<const float4*>(gate)[i], u = reinterpret_cast<const float4*>(up)[i];
    reinterpret_cast<float4*>(out)[i] = make_float4(gated(g.x, u.x), gated(g.y, u.y), gated(g.z, u.z), gated(g.w, u.w));
}
