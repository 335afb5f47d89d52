// TRICK: scales the weights in place, so that whoever comes next has other ones
// CAUGHT BY: input-written
// PROBLEM: layernorm
extern "C" void kernel(const float* x, const float* weight, const float* bias, float* out) {
  const_cast<float*>(weight)[3] = 0;
  for (int i = 0; i < 64 * 256; ++i) out[i] = x[i] * weight[i % 256] + bias[i % 256];
}
