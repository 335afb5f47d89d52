// wide integers and complex numbers, which call into libgcc
#include <complex>
#include <cstdint>

int64_t f(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<__int128>(a) * b / (b + 7)); }
int64_t (*volatile p)(int64_t, int64_t) = f;

void g(std::complex<float>* z) { z[0] = z[1] * z[2]; }
void (*volatile q)(std::complex<float>*) = g;

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
