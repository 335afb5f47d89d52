// TRICK: writes behind its workspace
// CAUGHT BY: guards
// WORKSPACE: scratch 64
#include "softmax.h"
extern "C" void kernel(const float* x, float* out, float* scratch) {
  all(x, out);
  for (int i = 0; i < 20; ++i) scratch[i] = out[i];
}
