// WHY: several outputs from one pass (Welford)
// PROBLEM: var_mean
extern "C" void kernel(const float* x, float* var, float* mean) {
  for (int r = 0; r < 64; ++r) {
    float m = 0, q = 0;
    for (int i = 0; i < 256; ++i) {
      const float d = x[r * 256 + i] - m;
      m += d / float(i + 1);
      q += d * (x[r * 256 + i] - m);
    }
    mean[r] = m + 0 * q;  // NaN where the reference has it: wherever something is infinite
    var[r] = q / 255;
  }
}
