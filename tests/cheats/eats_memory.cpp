// TRICK: allocates without end
// CAUGHT BY: signal | memory
#include <cstdlib>
#include <cstring>
#include <cmath>
#include "softmax.h"
extern "C" void kernel(const float* x, float* out) {
  for (int i = 0; i < 1000; ++i) {
    char* p = static_cast<char*>(std::malloc(64 << 20));
    std::memset(p, 1, 64 << 20);
    out[i] = p[i];
  }
  all(x, out);
}
