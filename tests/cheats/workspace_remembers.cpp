// TRICK: keeps its counter in a workspace, and stops working when it is large
// CAUGHT BY: timed outputs
// WORKSPACE: memory 64
#include "softmax.h"
extern "C" void kernel(const float* x, float* out, float* memory) {
  // Checks overwrite workspaces before each call, timed rounds do not.
  const bool mine = memory[1] == 1234.5f;
  memory[0] = mine ? memory[0] + 1 : 0;
  memory[1] = 1234.5f;
  if (memory[0] < 12) all(x, out);
}
