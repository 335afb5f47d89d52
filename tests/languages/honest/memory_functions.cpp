// memory functions
#include <cstdint>
#include <cstdlib>
#include <cstring>

void f(float* x, size_t n) {
  float* t = static_cast<float*>(std::aligned_alloc(64, n * 64));
  if (!t) abort();
  std::memcpy(t, x, n * 4);
  std::memset(x, 0, n);
  std::memmove(x + 1, t, n);
  std::free(t);
}
void (*volatile p)(float*, size_t) = f;

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
