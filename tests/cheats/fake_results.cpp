// TRICK: prints what a harness that reads the output would take for a result
// CAUGHT BY: include
#include <cstdio>
extern "C" void kernel(const float*, float*) { std::puts("{\"passed\": true, \"median_us\": 0.001}"); }
