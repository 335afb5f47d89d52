// TRICK: does nothing and hopes that the output still holds an earlier answer
// CAUGHT BY: written
extern "C" void kernel(const float*, float*) {}
