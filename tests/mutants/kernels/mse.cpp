// KERNEL: a sum over threads
// PROBLEM: odd_mse
extern "C" void kernel(const float* x, const float* y, float* out) {
  double sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < 61 * 173; ++i) {
    const double d = (double)x[i] - y[i];
    sum += d * d;
  }
  *out = sum / (61 * 173);
}
