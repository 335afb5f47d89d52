// WHY: sums within blocks first, then what came before each block: the parallel scan
// PROBLEM: cumsum
extern "C" void kernel(const float* x, float* out) {
  for (int r = 0; r < 64; ++r) {
    const float* a = x + r * 256;
    float* o = out + r * 256;
    for (int b = 0; b < 256; b += 16) {
      o[b] = a[b];
      for (int i = b + 1; i < b + 16; ++i) o[i] = o[i - 1] + a[i];
    }
    float before = 0;
    for (int b = 0; b < 256; b += 16) {
      const float last = o[b + 15];
      for (int i = b; i < b + 16; ++i) o[i] += before;
      before += last;
    }
  }
}
