// TRICK: returns at once and lets a thread of its own finish the work
// CAUGHT BY: include
#include <pthread.h>
static void* work(void* out) { return out; }
extern "C" void kernel(const float*, float* out) {
  pthread_t t;
  pthread_create(&t, nullptr, work, out);
}
