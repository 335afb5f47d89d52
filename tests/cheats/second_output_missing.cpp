// TRICK: writes the first of two outputs
// CAUGHT BY: written
// PROBLEM: var_mean
extern "C" void kernel(const float* x, float* var, float*) {
  for (int r = 0; r < 64; ++r) {
    double m = 0, q = 0;
    for (int i = 0; i < 256; ++i) m += x[r * 256 + i] / 256.0;
    for (int i = 0; i < 256; ++i) q += (x[r * 256 + i] - m) * (x[r * 256 + i] - m);
    var[r] = float(q / 255);
  }
}
