// TRICK: gives the input back; right for a layer norm of normal values with neutral parameters, nearly
// CAUGHT BY: accuracy
// PROBLEM: layernorm
extern "C" void kernel(const float* x, const float*, const float*, float* out) {
  for (int i = 0; i < 64 * 256; ++i) out[i] = x[i];
}
