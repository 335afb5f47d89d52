#include <cmath>
#include <cstdint>

constexpr int LANES = 64;  // kw: tune 32, 128

static inline float total(const float* part, int lanes) {
    float sum = 0;
    for (int k = 0; k < lanes; ++k) sum += part[k];
    return sum;
}

extern "C" void l2_normalize(const float* __restrict__ embeddings, float* __restrict__ out) {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < 4096; ++row) {
        const float* in = embeddings + row * 768;
        float part[LANES] = {};
        for (int i = 0; i < 768; i += LANES)
#pragma omp simd
            for (int k = 0; k < LANES; ++k) part[k] += in[i + k] * in[i + k];
        float norm = std::sqrt(total(part, LANES));
        norm = norm < 1e-12f ? 1e-12f : norm;
#pragma omp simd
        for (int i = 0; i < 768; ++i) out[row * 768 + i] = in[i] / norm;
    }
}
