#include <cmath>
#include <cstdint>

constexpr int LANES = 64;  // kw: tune 32, 128

static inline float total(const float* part, int lanes) {
    float sum = 0;
    for (int k = 0; k < lanes; ++k) sum += part[k];
    return sum;
}

extern "C" void add_rms_norm(
    const float* __restrict__ hidden_states, const float* __restrict__ residual, const float* __restrict__ weight,
    float* __restrict__ out0, float* __restrict__ out1) {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < 512; ++row) {
        const float *a = hidden_states + row * 4096, *b = residual + row * 4096;
        float *sums = out1 + row * 4096, *to = out0 + row * 4096;
        float part[LANES] = {};
        for (int i = 0; i < 4096; i += LANES)
#pragma omp simd
            for (int k = 0; k < LANES; ++k) {
                const float v = b[i + k] + a[i + k];
                sums[i + k] = v;
                part[k] += v * v;
            }
        const float scale = 1.0f / std::sqrt(total(part, LANES) / 4096 + 1e-5f);
#pragma omp simd
        for (int i = 0; i < 4096; ++i) to[i] = weight[i] * (sums[i] * scale);
    }
}
