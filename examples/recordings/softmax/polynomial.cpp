#include <cmath>
#include <cstdint>
#include <cstring>

constexpr int CHUNK = 8;  // kw: tune 1, 8, 64

// e^x for x <= 0: 2^n times a polynomial, with n split in two so that subnormal results come out.
static inline float power(float x) {
    x = x < -104.0f ? -104.0f : x;  // keeps a NaN
    const float shifted = x * 1.44269504f + 12582912.0f;
    const float n = shifted - 12582912.0f;
    float r = x - n * 0.693145752f;
    r = r - n * 1.42860677e-6f;
    float p = 1.38427734e-3f;
    p = p * r + 8.33345670e-3f;
    p = p * r + 4.16657962e-2f;
    p = p * r + 1.66666552e-1f;
    p = p * r + 5.00000000e-1f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    int32_t bits;
    std::memcpy(&bits, &shifted, 4);
    const int32_t whole = bits - 0x4b400000;
    const int32_t half = whole >> 1;
    const int32_t low = (half + 127) << 23, high = (whole - half + 127) << 23;
    float a, b;
    std::memcpy(&a, &low, 4);
    std::memcpy(&b, &high, 4);
    return p * a * b;
}

extern "C" void softmax(const float* __restrict__ scores, float* __restrict__ out) {
#pragma omp parallel for schedule(dynamic, CHUNK)
    for (int64_t row = 0; row < 16 * 512; ++row) {
        const float* in = scores + row * 512;
        float* to = out + row * 512;
        float top = -INFINITY;
#pragma omp simd reduction(max : top)
        for (int i = 0; i < 512; ++i) top = in[i] > top ? in[i] : top;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < 512; ++i) {
            const float e = power(in[i] - top);
            to[i] = e;
            sum += e;
        }
        const float scale = 1.0f / sum;
#pragma omp simd
        for (int i = 0; i < 512; ++i) to[i] *= scale;
    }
}
