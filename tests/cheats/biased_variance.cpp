// TRICK: divides by 256 instead of 255
// CAUGHT BY: accuracy
// PROBLEM: var_mean
extern "C" void kernel(const float* x, float* var, float* mean) {
  for (int r = 0; r < 64; ++r) {
    double m = 0, q = 0;
    for (int i = 0; i < 256; ++i) m += x[r * 256 + i] / 256.0;
    for (int i = 0; i < 256; ++i) q += (x[r * 256 + i] - m) * (x[r * 256 + i] - m);
    var[r] = float(q / 256);
    mean[r] = float(m);
  }
}
