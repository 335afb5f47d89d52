#include <cmath>
#include <cstdint>

constexpr int CHUNK = 2183;  // kw: tune 8732, 34928

extern "C" void huber_loss(const float* __restrict__ predicted, const float* __restrict__ target, float* __restrict__ out) {
    double sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (int64_t chunk = 0; chunk < 64 * 8732 * 4 / CHUNK; ++chunk) {
        float part = 0;  // short sums in float, long ones in double
#pragma omp simd reduction(+ : part)
        for (int64_t i = chunk * CHUNK; i < chunk * CHUNK + CHUNK; ++i) {
            const float d = std::fabs(predicted[i] - target[i]);
            part += d < 1.0f ? 0.5f * d * d : d - 0.5f;
        }
        sum += part;
    }
    out[0] = float(sum / (64 * 8732 * 4));
}
