// WHY: a reduction clause in double, whose order nobody knows
// PROBLEM: mse
extern "C" void kernel(const float* x, const float* y, float* out) {
  double s = 0;
#pragma omp parallel for reduction(+ : s)
  for (int i = 0; i < 64 * 256; ++i) s += (double(x[i]) - y[i]) * (double(x[i]) - y[i]);
  *out = float(s / (64 * 256));
}
