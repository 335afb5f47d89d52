// TRICK: knows that two normal inputs differ by two on average
// CAUGHT BY: accuracy
// PROBLEM: mse
extern "C" void kernel(const float*, const float*, float* out) { *out = 2; }
