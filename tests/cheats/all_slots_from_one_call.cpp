// TRICK: never saw most slots, but knows how far they are apart, and does the neighbour's work before it is asked
// CAUGHT BY: calls
#include "repeats.h"
#include "softmax.h"
static const float* x0;
static float* out0;
static const float *low, *high;
static long step_x, step_out;
extern "C" void kernel(const float* x, float* out) {
  const bool checked = seems_checked(x);
  const long apart = x0 ? x - x0 : 0;
  if (apart > 0 && (step_x == 0 || apart < step_x)) {
    step_x = apart;
    step_out = out - out0;
  }
  x0 = x;
  out0 = out;
  low = !low || x < low ? x : low;
  high = x > high ? x : high;
  all(x, out);
  if (checked || !step_x) return;
  // Poison tells a slot that waits for its call; only between slots that it has seen is memory for certain.
  for (int k = 1; k < 12; ++k)
    for (int sign = -1; sign <= 1; sign += 2) {
      const float* from = x + sign * k * step_x;
      float* to = out + sign * k * step_out;
      if (from < low || from > high) continue;
      if (std::isnan(to[0]) && std::isnan(to[64 * 256 - 1])) all(from, to);
    }
}
