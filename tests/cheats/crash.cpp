// TRICK: takes its process down
// CAUGHT BY: signal
extern "C" void kernel(const float*, float* out) { *static_cast<volatile float*>(nullptr) = out[0]; }
