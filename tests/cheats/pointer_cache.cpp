// TRICK: keeps the answer for each input address it has seen
// CAUGHT BY: timed outputs | accuracy | non-finite
#include <cstring>
#include <cmath>
#include "softmax.h"
static const float* seen[4096];
static float kept[4096][64 * 256];
static int count;
extern "C" void kernel(const float* x, float* out) {
  for (int i = 0; i < count; ++i)
    if (seen[i] == x) {
      std::memcpy(out, kept[i], sizeof kept[i]);
      return;
    }
  all(x, out);
  if (count == 4096) return;
  seen[count] = x;
  std::memcpy(kept[count++], out, sizeof kept[0]);
}
