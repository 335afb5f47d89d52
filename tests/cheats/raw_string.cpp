// TRICK: keeps line markers in a raw string
// CAUGHT BY: source
static const char* text = R"x(
# 1 "/usr/include/stdio.h" 3
)x";
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
