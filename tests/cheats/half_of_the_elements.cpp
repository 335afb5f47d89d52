// TRICK: takes every second element for the mean
// CAUGHT BY: accuracy
// PROBLEM: mse
extern "C" void kernel(const float* x, const float* y, float* out) {
  double s = 0;
  for (int i = 0; i < 64 * 256; i += 2) s += double(x[i] - y[i]) * (x[i] - y[i]);
  *out = float(s / (32 * 256));
}
