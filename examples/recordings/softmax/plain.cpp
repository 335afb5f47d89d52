#include <cmath>
#include <cstdint>

extern "C" void softmax(const float* __restrict__ scores, float* __restrict__ out) {
#pragma omp parallel for
    for (int64_t row = 0; row < 16 * 512; ++row) {
        const float* in = scores + row * 512;
        float* to = out + row * 512;
        float top = -INFINITY;
        for (int i = 0; i < 512; ++i) top = in[i] > top ? in[i] : top;
        float sum = 0;
        for (int i = 0; i < 512; ++i) sum += to[i] = std::exp(in[i] - top);
        for (int i = 0; i < 512; ++i) to[i] /= sum;
    }
}
