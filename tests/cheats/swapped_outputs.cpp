// TRICK: exchanges two outputs of one shape
// CAUGHT BY: accuracy
// PROBLEM: var_mean
extern "C" void kernel(const float* x, float* var, float* mean) {
  for (int r = 0; r < 64; ++r) {
    double m = 0, q = 0;
    for (int i = 0; i < 256; ++i) m += x[r * 256 + i] / 256.0;
    for (int i = 0; i < 256; ++i) q += (x[r * 256 + i] - m) * (x[r * 256 + i] - m);
    mean[r] = float(q / 255);
    var[r] = float(m);
  }
}
