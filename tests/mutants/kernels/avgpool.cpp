// KERNEL: windows of three by three, every second, cut at the edges
// PROBLEM: odd_avgpool
extern "C" void kernel(const float* x, float* out) {
  constexpr int H = 23, W = 31, OH = 12, OW = 16;
#pragma omp parallel for
  for (int c = 0; c < 7 * 4; ++c)
    for (int o = 0; o < OH; ++o)
      for (int p = 0; p < OW; ++p) {
        const int top = o * 2 - 1 < 0 ? 0 : o * 2 - 1, left = p * 2 - 1 < 0 ? 0 : p * 2 - 1;
        float sum = 0;
        int count = 0;
        for (int i = top; i < o * 2 + 2 && i < H; ++i)
          for (int j = left; j < p * 2 + 2 && j < W; ++j) {
            sum += x[(c * H + i) * W + j];
            ++count;
          }
        out[(c * OH + o) * OW + p] = sum / count;
      }
}
