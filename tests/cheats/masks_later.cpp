// TRICK: forgets rows that are masked altogether as soon as no inputs come twice any more
// CAUGHT BY: timed outputs
// PROBLEM: masked
#include <cmath>
#include <cstdint>
#include <cstring>
static bool comes_again(const float* x) {
  static uint64_t last;
  static int since;
  uint64_t sum = 0;
  for (int i = 0; i < 64 * 128; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, 4);
    sum = sum * 31 + bits;
  }
  since = sum == last ? 0 : since + 1;
  last = sum;
  return since < 3;
}
extern "C" void kernel(const float* x, const bool* mask, float* out) {
  const bool careful = comes_again(x);
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 128;
    const bool* hidden = mask + r * 128;
    float *o = out + r * 128, m = -INFINITY, s = 0;
    int seen = 0;
    for (int i = 0; i < 128; ++i) {
      o[i] = hidden[i] ? -1e30f : a[i];
      seen += !hidden[i];
      m = o[i] > m || std::isnan(o[i]) ? o[i] : m;
    }
    for (int i = 0; i < 128; ++i) s += o[i] = std::exp(o[i] - m);
    for (int i = 0; i < 128; ++i) o[i] = careful || seen ? o[i] / s : 0.0f;
  }
}
