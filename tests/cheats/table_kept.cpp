// TRICK: copies the table at the first call and looks up there
// CAUGHT BY: accuracy | timed outputs
// PROBLEM: embedding
#include <cstdint>
#include <cstring>
static float kept[100 * 32];
static bool ready;
extern "C" void kernel(const int64_t* ids, const float* table, float* out) {
  if (!ready) std::memcpy(kept, table, sizeof kept);
  ready = true;
  for (int i = 0; i < 96; ++i) std::memcpy(out + i * 32, kept + ids[i] * 32, 32 * sizeof(float));
}
