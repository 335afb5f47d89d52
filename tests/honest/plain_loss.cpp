// WHY: one vector of running sums, the plainest kernel a person would write
// PROBLEM: mse
extern "C" void kernel(const float* x, const float* y, float* out) {
  float lanes[16] = {}, sum = 0;
  for (int i = 0; i < 64 * 256; i += 16)
    for (int j = 0; j < 16; ++j) lanes[j] += (x[i + j] - y[i + j]) * (x[i + j] - y[i + j]);
  for (int j = 0; j < 16; ++j) sum += lanes[j];
  *out = sum / (64 * 256);
}
