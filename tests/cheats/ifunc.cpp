// TRICK: has the loader choose a function, by running code
// CAUGHT BY: attribute
extern "C" {
static float one(float v) { return v; }
static float (*choose())(float) { return one; }
float chosen(float) __attribute__((ifunc("choose")));
}
extern "C" void kernel(const float* x, float* out) { out[0] = chosen(x[0]); }
