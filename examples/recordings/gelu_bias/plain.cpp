#include <cmath>
#include <cstdint>

extern "C" void gelu_bias(const float* __restrict__ x, const float* __restrict__ bias, float* __restrict__ out) {
#pragma omp parallel for
    for (int64_t row = 0; row < 1024; ++row)
        for (int i = 0; i < 3072; ++i) {
            const float v = x[row * 3072 + i] + bias[i];
            out[row * 3072 + i] = 0.5f * v * (1.0f + std::tanh(0.79788456f * (v + 0.044715f * v * v * v)));
        }
}
