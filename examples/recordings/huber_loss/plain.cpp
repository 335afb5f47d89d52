#include <cmath>
#include <cstdint>

extern "C" void huber_loss(const float* __restrict__ predicted, const float* __restrict__ target, float* __restrict__ out) {
    double sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int64_t i = 0; i < 64 * 8732 * 4; ++i) {
        const float d = std::fabs(predicted[i] - target[i]);
        sum += d < 1.0f ? 0.5f * d * d : d - 0.5f;
    }
    out[0] = float(sum / (64 * 8732 * 4));
}
