// TRICK: writes the mean of every answer
// CAUGHT BY: accuracy
extern "C" void kernel(const float*, float* out) {
  for (int i = 0; i < 64 * 256; ++i) out[i] = 1.0f / 256;
}
