// WHY: four numbers that may cancel, added in pairs
// PROBLEM: avgpool
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for
  for (int p = 0; p < 32; ++p)
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 8; ++j) {
        const float* a = x + p * 256 + 2 * i * 16 + 2 * j;
        out[p * 64 + i * 8 + j] = ((a[0] + a[16]) + (a[1] + a[17])) * 0.25f;
      }
}
