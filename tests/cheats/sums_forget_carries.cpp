// TRICK: starts each block of 64 anew, as a scan without its last pass would
// CAUGHT BY: accuracy
// PROBLEM: cumsum
extern "C" void kernel(const float* x, float* out) {
  for (int i = 0; i < 64 * 256; ++i) out[i] = (i % 64 ? out[i - 1] : 0.0f) + x[i];
}
