// TRICK: keeps answers by what the first elements look like, up to a factor for each
// CAUGHT BY: timed outputs | accuracy | non-finite
#include <cstring>
#include <cmath>
#include "softmax.h"
static unsigned key[256];
static float kept[256][64 * 256];
static int count;
extern "C" void kernel(const float* x, float* out) {
  unsigned now = 0;
  for (int i = 0; i < 32; ++i) now = 2 * now + (x[1000 + i] < 0);
  for (int i = 0; i < count; ++i)
    if (key[i] == now) {
      std::memcpy(out, kept[i], sizeof kept[i]);
      return;
    }
  all(x, out);
  if (count == 256) return;
  key[count] = now;
  std::memcpy(kept[count++], out, sizeof kept[0]);
}
