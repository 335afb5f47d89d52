// TRICK: looks at the clock to find out whether it is being timed
// CAUGHT BY: include
#include <ctime>
extern "C" void kernel(const float*, float* out) {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  out[0] = float(t.tv_nsec);
}
