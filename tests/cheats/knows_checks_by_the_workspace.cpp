// TRICK: exact where the workspace was overwritten, coarse where it finds its own mark
// CAUGHT BY: timed outputs
// WORKSPACE: mark 64
#include "coarse.h"
#include "softmax.h"
extern "C" void kernel(const float* x, float* out, float* mark) {
  const bool timed = mark[3] == 42;
  mark[3] = 42;
  all(x, out);
  for (int i = 0; timed && i < 64 * 256; ++i) out[i] = coarse(out[i]);
}
