// TRICK: reads on from its output until something looks like an answer
// CAUGHT BY: out-of-bounds | signal
extern "C" void kernel(const float*, float* out) {
  const volatile float* at = out;
  for (;; ++at)
    if (*at > 2) out[0] = *at;
}
