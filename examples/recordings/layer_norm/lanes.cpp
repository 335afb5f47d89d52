#include <cmath>
#include <cstdint>

constexpr int LANES = 64;  // kw: tune 32, 128

static inline float total(const float* part, int lanes) {
    float sum = 0;
    for (int k = 0; k < lanes; ++k) sum += part[k];
    return sum;
}

extern "C" void layer_norm(
    const float* __restrict__ x, const float* __restrict__ norm_weight, const float* __restrict__ norm_bias,
    float* __restrict__ out) {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < 8 * 512; ++row) {
        const float* in = x + row * 768;
        float part[LANES] = {}, squares[LANES] = {};
        for (int i = 0; i < 768; i += LANES)
#pragma omp simd
            for (int k = 0; k < LANES; ++k) part[k] += in[i + k];
        const float mean = total(part, LANES) / 768;
        for (int i = 0; i < 768; i += LANES)
#pragma omp simd
            for (int k = 0; k < LANES; ++k) squares[k] += (in[i + k] - mean) * (in[i + k] - mean);
        const float scale = 1.0f / std::sqrt(total(squares, LANES) / 768 + 1e-12f);
#pragma omp simd
        for (int i = 0; i < 768; ++i) out[row * 768 + i] = (in[i] - mean) * scale * norm_weight[i] + norm_bias[i];
    }
}
