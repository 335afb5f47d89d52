// TRICK: writes zero where one small number is asked for
// CAUGHT BY: accuracy
// PROBLEM: norm
extern "C" void kernel(const float*, float* out) { *out = 0; }
