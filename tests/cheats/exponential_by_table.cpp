// TRICK: looks the exponential up in 4096 steps without interpolating
// CAUGHT BY: accuracy
#include <cmath>
static float table[4097];
static bool ready;
static float exponential(float v) {
  for (int i = 0; !ready && i <= 4096; ++i) table[i] = std::exp(-float(i) / 64);
  ready = true;
  if (std::isnan(v)) return v;
  return v < -64 ? 0.0f : table[int(-v * 64 + 0.5f)];
}
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float *o = out + r * 256, m = a[0], s = 0;
    for (int i = 1; i < 256; ++i) m = a[i] > m || std::isnan(a[i]) ? a[i] : m;
    for (int i = 0; i < 256; ++i) s += o[i] = exponential(a[i] - m);
    for (int i = 0; i < 256; ++i) o[i] /= s;
  }
}
