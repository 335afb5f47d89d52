// WHY: a mean of means, one for each row
// PROBLEM: mse
// WORKSPACE: parts 256
// STEP: rows x y parts
// STEP: mean parts out
extern "C" void rows(const float* x, const float* y, float* parts) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    float s = 0;
#pragma omp simd reduction(+ : s)
    for (int i = 0; i < 256; ++i) s += (x[r * 256 + i] - y[r * 256 + i]) * (x[r * 256 + i] - y[r * 256 + i]);
    parts[r] = s / 256;
  }
}
extern "C" void mean(const float* parts, float* out) {
  float s = 0;
  for (int r = 0; r < 64; ++r) s += parts[r];
  *out = s / 64;
}
