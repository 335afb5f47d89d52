// TRICK: exact where the output holds one pattern of poison, coarse where it holds the other
// CAUGHT BY: accuracy
#include "coarse.h"
#include "softmax.h"
extern "C" void kernel(const float* x, float* out) {
  const bool checked = !std::isnan(out[0]);
  all(x, out);
  for (int i = 0; !checked && i < 64 * 256; ++i) out[i] = coarse(out[i]);
}
