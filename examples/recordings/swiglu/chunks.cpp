#include <cmath>
#include <cstdint>

constexpr int64_t CHUNK = 2048;  // kw: tune 1024, 4096

extern "C" void swiglu(const float* __restrict__ gate, const float* __restrict__ up, float* __restrict__ out) {
    const int64_t count = 256 * 11008;
#pragma omp parallel for schedule(static)
    for (int64_t start = 0; start < count; start += CHUNK) {
        const int64_t end = start + CHUNK < count ? start + CHUNK : count;
#pragma omp simd
        for (int64_t i = start; i < end; ++i) out[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
    }
}
