// TRICK: takes the logarithm of 100 for the loss, since guesses are right by chance
// CAUGHT BY: accuracy
// PROBLEM: cross_entropy
#include <cstdint>
extern "C" void kernel(const float*, const int64_t*, float* out) { *out = 4.60517019f; }
