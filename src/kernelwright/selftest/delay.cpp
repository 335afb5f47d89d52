// How long one step of the chain takes that slows a kernel down: the shortest of many runs, printed in nanoseconds.
// The same chain stands in timing.py: every step waits for the one before it, so that nothing can shorten it.
#include <cstdint>
#include <cstdio>
#include <ctime>

static double now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * t.tv_sec + t.tv_nsec;
}

int main() {
  const int64_t steps = 100000;
  double best = 1e18;
  for (int run = 0; run < 200; ++run) {
    const double begun = now_ns();
    uint64_t chain = run;
    for (int64_t i = 0; i < steps; ++i) {
      chain = chain * 6364136223846793005u + 1442695040888963407u;
      asm volatile("" : "+r"(chain));
    }
    const double spent = (now_ns() - begun) / steps;
    if (spent < best) best = spent;
  }
  std::printf("%.6f\n", best);
}
