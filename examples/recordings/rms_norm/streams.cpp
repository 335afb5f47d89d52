#include <cmath>
#include <cstdint>

constexpr int LANES = 64;  // kw: tune 32, 128

extern "C" void rms_norm(const float* __restrict__ hidden_states, const float* __restrict__ weight, float* __restrict__ out) {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < 512; ++row) {
        const float* in = hidden_states + row * 4096;
        float* to = out + row * 4096;
        // Several partial sums: shorter chains, and less rounding than one.
        float part[LANES] = {};
        for (int i = 0; i < 4096; i += LANES) {
#pragma omp simd
            for (int k = 0; k < LANES; ++k) part[k] += in[i + k] * in[i + k];
        }
        float sum = 0;
        for (int k = 0; k < LANES; ++k) sum += part[k];
        const float scale = 1.0f / std::sqrt(sum / 4096 + 1e-5f);
#pragma omp simd
        for (int i = 0; i < 4096; ++i) to[i] = weight[i] * (in[i] * scale);
    }
}
