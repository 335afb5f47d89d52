// TRICK: keeps a little more memory in every call
// CAUGHT BY: signal | memory | exit
#include "softmax.h"
#include <cstdlib>
#include <cstring>
static char* volatile kept;
extern "C" void kernel(const float* x, float* out) {
  char* p = static_cast<char*>(std::malloc(48 << 20));
  std::memset(p, 1, 48 << 20);
  kept = p;
  all(x, out);
}
