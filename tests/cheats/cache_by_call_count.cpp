// TRICK: repeats the last three answers by turns, as soon as no contents come twice any more
// CAUGHT BY: timed outputs
#include "repeats.h"
#include "softmax.h"
#include <cstring>
static float kept[3][64 * 256];
static int calls;
extern "C" void kernel(const float* x, float* out) {
  const int now = calls++;
  if (!seems_checked(x)) {
    std::memcpy(out, kept[now % 3], sizeof kept[0]);
    return;
  }
  all(x, out);
  std::memcpy(kept[now % 3], out, sizeof kept[0]);
}
