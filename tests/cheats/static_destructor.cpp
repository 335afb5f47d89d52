// TRICK: has an object that is destroyed at the end of the process
// CAUGHT BY: link | import | constructor
struct Late {
  ~Late() { *static_cast<volatile int*>(nullptr) = 1; }
};
static Late late;
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; static_cast<void>(late); }
