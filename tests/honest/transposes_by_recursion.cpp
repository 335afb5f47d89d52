// WHY: halves the longer side until nothing is left, whatever the cache
// PROBLEM: transpose
static void part(const float* x, float* out, int rows, int columns) {
  if (rows == 1 && columns == 1)
    *out = *x;
  else if (rows > columns) {
    part(x, out, rows / 2, columns);
    part(x + rows / 2 * 256, out + rows / 2, rows - rows / 2, columns);
  } else {
    part(x, out, rows, columns / 2);
    part(x + columns / 2, out + columns / 2 * 64, rows, columns - columns / 2);
  }
}
extern "C" void kernel(const float* x, float* out) { part(x, out, 64, 256); }
