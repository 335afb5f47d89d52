#include <cmath>
#include <cstdint>

constexpr int ROWS = 4;  // kw: tune 1, 16

extern "C" void gelu_bias(const float* __restrict__ x, const float* __restrict__ bias, float* __restrict__ out) {
    // 0.5 (1 + tanh(u)) = 1 / (1 + e^(-2u)): one exponential, which the compiler's vector library knows
#pragma omp parallel for schedule(dynamic, ROWS)
    for (int64_t row = 0; row < 1024; ++row)
#pragma omp simd
        for (int i = 0; i < 3072; ++i) {
            const float v = x[row * 3072 + i] + bias[i];
            out[row * 3072 + i] = v / (1.0f + std::exp(-1.5957691f * (v + 0.044715f * v * v * v)));
        }
}
