// WHY: fills a table at the first call: of numbers that depend on nothing that is given
#include <cmath>
static double powers[64];  // e^-n
static bool ready;
extern "C" void kernel(const float* x, float* out) {
  for (int n = 0; !ready && n < 64; ++n) powers[n] = std::exp(-double(n));
  ready = true;
#pragma omp parallel for
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    double m = a[0], s = 0, e[256];
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) {
      const double v = a[i] - m;
      const int n = v > -64 ? int(-v) : 0;
      s += e[i] = v > -64 ? powers[n] * std::exp(v + n) : std::exp(v);
    }
    for (int i = 0; i < 256; ++i) out[r * 256 + i] = float(e[i] / s);
  }
}
