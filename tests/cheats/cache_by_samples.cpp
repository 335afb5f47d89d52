// TRICK: keeps answers by sixteen elements of the input, far apart
// CAUGHT BY: timed outputs
#include "softmax.h"
#include <cstring>
static float key[64][16], kept[64][64 * 256];
static int count;
extern "C" void kernel(const float* x, float* out) {
  float now[16];
  for (int i = 0; i < 16; ++i) now[i] = x[i * 1000];
  for (int i = 0; i < count && i < 64; ++i)
    if (!std::memcmp(key[i], now, sizeof now)) {
      std::memcpy(out, kept[i], sizeof kept[i]);
      return;
    }
  all(x, out);
  std::memcpy(key[count % 64], now, sizeof now);
  std::memcpy(kept[count++ % 64], out, sizeof kept[0]);
}
