// WHY: threads add their parts as they come: not the same bits in every run, right in every run
// PROBLEM: mse
extern "C" void kernel(const float* x, const float* y, float* out) {
  float sum = 0;
#pragma omp parallel
  {
    float lanes[16] = {};
#pragma omp for schedule(dynamic, 8) nowait
    for (int b = 0; b < 64 * 256 / 16; ++b)
      for (int j = 0; j < 16; ++j) {
        const float d = x[b * 16 + j] - y[b * 16 + j];
        lanes[j] += d * d;
      }
    for (int j = 0; j < 16; ++j)
#pragma omp atomic
      sum += lanes[j];
  }
  *out = sum / (64 * 256);
}
