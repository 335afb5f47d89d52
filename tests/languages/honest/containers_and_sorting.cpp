// containers and sorting
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

void f(float* x, int n) {
  std::vector<float> v(x, x + n);
  v.push_back(1);
  std::sort(v.begin(), v.end());
  std::nth_element(v.begin(), v.begin() + n / 2, v.end(), std::greater<float>());
  x[0] = v.at(1);
  auto q = std::make_unique<float[]>(n);
  q[0] = 2;
  std::function<float(float)> g = [&](float a) { return a * v[0]; };
  x[1] = g(q[0]);
}
void (*volatile p)(float*, int) = f;

extern "C" __attribute__((visibility("default"))) void kw_entry(void* const* b) { static_cast<float*>(b[0])[0] = 1.0f; }
