#include <cmath>
#include <cstdint>

extern "C" void swiglu(const float* __restrict__ gate, const float* __restrict__ up, float* __restrict__ out) {
#pragma omp parallel for
    for (int64_t i = 0; i < 256 * 11008; ++i) out[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
}
