// WHY: copies in tiles of eight by eight
// PROBLEM: transpose
extern "C" void kernel(const float* x, float* out) {
#pragma omp parallel for collapse(2)
  for (int r = 0; r < 64; r += 8)
    for (int c = 0; c < 256; c += 8)
      for (int j = c; j < c + 8; ++j)
        for (int i = r; i < r + 8; ++i) out[j * 64 + i] = x[i * 256 + j];
}
