// TRICK: keeps answers in a file from one process to the next
// CAUGHT BY: include
#include <cstdio>
extern "C" void kernel(const float* x, float* out) {
  if (FILE* f = std::fopen("/tmp/answers", "r+b")) out[0] = float(std::fread(out, 4, 100, f)) + x[0];
}
