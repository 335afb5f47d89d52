#include <cmath>
#include <cstdint>

extern "C" void l2_normalize(const float* __restrict__ embeddings, float* __restrict__ out) {
#pragma omp parallel for
    for (int64_t row = 0; row < 4096; ++row) {
        float squares = 0;
        for (int i = 0; i < 768; ++i) squares += embeddings[row * 768 + i] * embeddings[row * 768 + i];
        float norm = std::sqrt(squares);
        norm = norm < 1e-12f ? 1e-12f : norm;
        for (int i = 0; i < 768; ++i) out[row * 768 + i] = embeddings[row * 768 + i] / norm;
    }
}
