// Keeps eleven significant bits, as a conversion to float16 or TF32 does.
#pragma once
#include <cstdint>
#include <cstring>
static float coarse(float v) {
  uint32_t u;
  std::memcpy(&u, &v, 4);
  u = (u + 0x1000u) & 0xffffe000u;
  std::memcpy(&v, &u, 4);
  return v;
}
