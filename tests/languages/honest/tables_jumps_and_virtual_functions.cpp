// tables, jump tables and virtual functions
#include <cstdint>

struct A {
  virtual float f(float x) { return x; }
};
struct B : A {
  float f(float x) override { return x * 2; }
};
static const float table[] = {1, 2, 3, 4, 5, 6, 7, 8};

float f(int k, float x) {
  switch (k) {
    case 0: return x;
    case 1: return x * x;
    case 2: return 1 / x;
    case 3: return x - 1;
    case 4: return x + 7;
    case 5: return -x;
    case 6: return x * 9;
  }
  B b;
  A* a = &b;
  volatile int i = k;
  return a->f(table[i & 7]);
}
float (*volatile p)(int, float) = f;

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
