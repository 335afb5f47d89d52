// A row softmax written by hand, for: kernelwright judge examples/softmax.py examples/softmax.cpp
#include <cmath>
#include <cstdint>

constexpr int64_t rows = 512;
constexpr int64_t columns = 256;

extern "C" void softmax(const float* x, float* out) {
#pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        const float* in = x + row * columns;
        float* to = out + row * columns;
        float top = in[0];
        for (int64_t i = 0; i < columns; ++i) top = in[i] > top || in[i] != in[i] ? in[i] : top;
        float sum = 0;
        for (int64_t i = 0; i < columns; ++i) sum += to[i] = std::exp(in[i] - top);
        for (int64_t i = 0; i < columns; ++i) to[i] /= sum;
    }
}
