#include <cmath>
#include <cstdint>

// A fresh approach: every line of the matrix is handled on its own.
extern "C" void rowwise(const float* __restrict__ scores, float* __restrict__ out) {
#pragma omp parallel for
    for (int64_t line = 0; line < 16 * 512; ++line) {
        const float* source = scores + line * 512;
        float* target = out + line * 512;
        float peak = -INFINITY;
        for (int k = 0; k < 512; ++k) peak = source[k] > peak ? source[k] : peak;
        float total = 0;
        for (int k = 0; k < 512; ++k) total += target[k] = std::exp(source[k] - peak);
        for (int k = 0; k < 512; ++k) target[k] /= total;
    }
}
