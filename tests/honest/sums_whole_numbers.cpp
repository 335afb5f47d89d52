// WHY: whole numbers may be added in any order
// PROBLEM: intsum
#include <cstdint>
extern "C" void kernel(const int64_t* x, int64_t* out) {
#pragma omp parallel for schedule(dynamic, 5)
  for (int r = 0; r < 64; ++r) {
    int64_t lanes[8] = {};
    for (int i = 255; i >= 0; --i) lanes[i % 8] += x[r * 256 + i];
    out[r] = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  }
}
