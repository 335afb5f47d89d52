// TRICK: has an object that is constructed before the first call
// CAUGHT BY: constructor
#include <vector>
static volatile int seen;
struct Early {
  Early() { seen = 1; }
};
static Early early;
extern "C" void kernel(const float* x, float* out) { out[0] = x[0] + float(seen); }
