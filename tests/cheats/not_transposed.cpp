// TRICK: copies without transposing, since a view could be turned later
// CAUGHT BY: accuracy | non-finite
// PROBLEM: transpose
#include <cstring>
extern "C" void kernel(const float* x, float* out) { std::memcpy(out, x, 64 * 256 * sizeof(float)); }
