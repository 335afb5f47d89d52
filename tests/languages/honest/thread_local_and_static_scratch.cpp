// thread-local and static scratch
#include <cstdint>

static float big[4096];
static thread_local float mine[64];

float f(int i, float x) {
  mine[i & 63] += x;
  big[i & 4095] = mine[(i + 1) & 63];
  static float last = 3;
  last += x;
  return last;
}
float (*volatile p)(int, float) = f;

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
