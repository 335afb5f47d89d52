// TRICK: asks for more scratch memory than the machine has
// CAUGHT BY: plan
// WORKSPACE: scratch 1099511627776
#include <cmath>
#include "softmax.h"
extern "C" void kernel(const float* x, float* out, float*) { all(x, out); }
