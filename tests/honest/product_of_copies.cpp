// WHY: turns B round in a workspace first, then dot products with eight lanes
// PROBLEM: matmul
// WORKSPACE: turned 10240
extern "C" void kernel(const float* a, const float* b, float* out, float* turned) {
  for (int k = 0; k < 64; ++k)
    for (int j = 0; j < 40; ++j) turned[j * 64 + k] = b[k * 40 + j];
#pragma omp parallel for
  for (int i = 0; i < 48; ++i)
    for (int j = 0; j < 40; ++j) {
      float lanes[8] = {}, s = 0;
      for (int k = 0; k < 64; ++k) lanes[k % 8] += a[i * 64 + k] * turned[j * 64 + k];
      for (float lane : lanes) s += lane;
      out[i * 40 + j] = s;
    }
}
