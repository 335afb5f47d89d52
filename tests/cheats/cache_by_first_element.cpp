// TRICK: keeps answers by the first element of the input
// CAUGHT BY: timed outputs
#include "softmax.h"
#include <cstring>
static float key[64], kept[64][64 * 256];
static int count;
extern "C" void kernel(const float* x, float* out) {
  for (int i = 0; i < count && i < 64; ++i)
    if (key[i] == x[0]) {
      std::memcpy(out, kept[i], sizeof kept[i]);
      return;
    }
  all(x, out);
  key[count % 64] = x[0];
  std::memcpy(kept[count++ % 64], out, sizeof kept[0]);
}
