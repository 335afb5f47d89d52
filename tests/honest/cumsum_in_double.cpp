// WHY: running sums more exact than the reference's
// PROBLEM: cumsum
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    double s = 0;
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = float(s += x[r * 256 + i]);
  }
}
