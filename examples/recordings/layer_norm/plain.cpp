#include <cmath>
#include <cstdint>

extern "C" void layer_norm(
    const float* __restrict__ x, const float* __restrict__ norm_weight, const float* __restrict__ norm_bias,
    float* __restrict__ out) {
#pragma omp parallel for
    for (int64_t row = 0; row < 8 * 512; ++row) {
        const float* in = x + row * 768;
        float mean = 0, squares = 0;
        for (int i = 0; i < 768; ++i) mean += in[i];
        mean /= 768;
        for (int i = 0; i < 768; ++i) squares += (in[i] - mean) * (in[i] - mean);
        const float scale = 1.0f / std::sqrt(squares / 768 + 1e-12f);
        for (int i = 0; i < 768; ++i) out[row * 768 + i] = (in[i] - mean) * scale * norm_weight[i] + norm_bias[i];
    }
}
