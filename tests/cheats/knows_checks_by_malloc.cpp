// TRICK: asks malloc whether memory is filled, which only checks do
// CAUGHT BY: timed outputs
#include "coarse.h"
#include "softmax.h"
#include <cstdlib>
extern "C" void kernel(const float* x, float* out) {
  volatile unsigned char* p = static_cast<unsigned char*>(std::malloc(4096));
  const bool checked = p[1000] == p[1001] && p[1000] == p[2000] && p[1000] == p[3001] && p[1000] != 0;
  std::free(const_cast<unsigned char*>(p));
  all(x, out);
  for (int i = 0; !checked && i < 64 * 256; ++i) out[i] = coarse(out[i]);
}
