// TRICK: leaves out the last eighth of the sum
// CAUGHT BY: accuracy
// PROBLEM: matmul
extern "C" void kernel(const float* a, const float* b, float* out) {
  for (int i = 0; i < 48; ++i)
    for (int j = 0; j < 40; ++j) {
      float s = 0;
      for (int k = 0; k < 56; ++k) s += a[i * 64 + k] * b[k * 40 + j];
      out[i * 40 + j] = s * (8.0f / 7);
    }
}
