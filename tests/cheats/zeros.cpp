// TRICK: writes zeros, which an absolute tolerance would accept for a softmax over many columns
// CAUGHT BY: accuracy
extern "C" void kernel(const float*, float* out) {
  for (int i = 0; i < 64 * 256; ++i) out[i] = 0;
}
