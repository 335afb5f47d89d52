// TRICK: embeds a file
// CAUGHT BY: directive
static const unsigned char bytes[] = {
#embed "/etc/hostname"
};
extern "C" void kernel(const float* x, float* out) { out[0] = x[0]; }
