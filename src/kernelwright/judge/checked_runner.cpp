// The checked runner: calls a build with a memory or race checker in it, on buffers of exactly the tensors' sizes.
//
//   checked_runner FOLDER LIBRARY THREADS
//
// FOLDER/plan holds the number of draws and then, for each buffer in the entry's order, its name, size in bytes and kind
// (i input, o output, w workspace); FOLDER/DRAW.BUFFER holds an input's contents. Every call gets new buffers from the
// checker's own allocator, so that a read or write of a single byte beyond one is seen. What a checker finds goes to
// standard error and ends the program; who reads it is checkers.py. Runs in a jail; no time is taken here.
//
// Built with -DKW_TEAMS it brings OpenMP teams of its own: plain threads, started and joined for each region. The
// compiler's run-time library is no part of the checked build: ThreadSanitizer does not see how it makes threads wait
// for each other and would call every barrier a race. Ours says so (__tsan_release, __tsan_acquire) wherever OpenMP
// promises an order, and nowhere else: handing out a loop's chunks orders nothing.
//
// Covers: parallel, for (every schedule), sections, single, critical, atomic, ordered, barrier, tasks (run at once).
// Does not cover: races between tasks; reductions over tasks and doacross loops (the build then does not load).

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <vector>

#ifdef KW_TEAMS
#include <pthread.h>
#include <sched.h>

extern "C" {
void __tsan_acquire(void*);
void __tsan_release(void*);
}

// What the teams do among themselves is invisible to the checker.
#define PLAIN __attribute__((no_sanitize("thread"), noinline))
#define EXPORT extern "C" __attribute__((visibility("default"))) PLAIN

namespace {

constexpr unsigned kShares = 64;  // work-sharing constructs that a team can be in at once (nowait)
int most_threads = 4;

struct Share {  // one work-sharing construct, met by every thread of a team
  int state;    // 0 free, 1 being made, 2 made
  unsigned index;
  int left;  // threads that are through
  bool down;
  uint64_t start, step, count, chunk;  // the loop: `count` iterations from `start` by `step`
  int schedule;                        // 's'tatic or 'd'ynamic
  uint64_t next;                       // the first iteration, or section, that nobody has
  uint64_t turn;                       // which chunk may be in its ordered region
  void* copied;
  int copied_ready;
};

struct Team {
  int size, level, number_above;
  Team* above;
  int arrived, generation;
  char order[2];  // addresses by which the checker knows the barrier
  Share shares[kShares];
};

struct Self {
  Team* team;
  int number;
  unsigned met;  // constructs met so far
  Share* share;
  uint64_t step, ticket;
  bool inside;
};

thread_local Self self;
Team alone = {1, 0, 0, nullptr, 0, 0, {}, {}};

PLAIN Team* team() {
  if (!self.team) self.team = &alone;
  return self.team;
}

struct Start {
  void (*function)(void*);
  void* data;
  Team* team;
  int number;
  bool loop;
};

PLAIN void* work(void* given) {
  Start* start = static_cast<Start*>(given);
  const Self before = self;
  self = Self{start->team, start->number, start->loop ? 1u : 0u, start->loop ? &start->team->shares[0] : nullptr, 0, 0, false};
  start->function(start->data);
  self = before;
  return nullptr;
}

PLAIN void run_team(void (*function)(void*), void* data, unsigned wanted, const Share* loop) {
  Team* above = team();
  Team* made = static_cast<Team*>(calloc(1, sizeof(Team)));
  made->size = above->level ? 1 : static_cast<int>(wanted ? wanted : static_cast<unsigned>(most_threads));
  made->level = above->level + 1;
  made->above = above;
  made->number_above = self.number;
  if (loop) {
    made->shares[0] = *loop;
    made->shares[0].state = 2;
  }
  std::vector<pthread_t> threads(static_cast<size_t>(made->size - 1));
  std::vector<Start> starts(static_cast<size_t>(made->size));
  for (int i = 0; i < made->size; ++i) starts[static_cast<size_t>(i)] = Start{function, data, made, i, loop != nullptr};
  for (size_t i = 1; i < starts.size(); ++i)
    if (pthread_create(&threads[i - 1], nullptr, work, &starts[i])) {
      fprintf(stderr, "checked_runner: no thread can be started\n");
      _Exit(70);
    }
  work(&starts[0]);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  free(made);
}

PLAIN void barrier() {
  Team* of = team();
  if (of->size == 1) return;
  const int generation = __atomic_load_n(&of->generation, __ATOMIC_ACQUIRE);
  void* order = &of->order[generation & 1];
  __tsan_release(order);
  if (__atomic_add_fetch(&of->arrived, 1, __ATOMIC_ACQ_REL) == of->size) {
    __atomic_store_n(&of->arrived, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&of->generation, generation + 1, __ATOMIC_RELEASE);
  } else {
    while (__atomic_load_n(&of->generation, __ATOMIC_ACQUIRE) == generation) sched_yield();
  }
  __tsan_acquire(order);
}

// The construct that this thread meets next; `made` says whether it is the first to meet it and has to fill it in.
PLAIN Share* meet(bool* made) {
  Team* of = team();
  const unsigned index = self.met++;
  Share* share = &of->shares[index % kShares];
  self.share = share;
  self.step = 0;
  self.inside = false;
  for (;;) {
    const int state = __atomic_load_n(&share->state, __ATOMIC_ACQUIRE);
    if (state == 2 && share->index == index) {
      *made = false;
      return share;
    }
    int free_state = 0;
    if (state == 0 && __atomic_compare_exchange_n(&share->state, &free_state, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      memset(reinterpret_cast<char*>(share) + sizeof share->state, 0, sizeof *share - sizeof share->state);
      share->index = index;
      *made = true;
      return share;
    }
    sched_yield();
  }
}

PLAIN void ready(Share* share) { __atomic_store_n(&share->state, 2, __ATOMIC_RELEASE); }

PLAIN void leave() {
  Share* share = self.share;
  if (__atomic_add_fetch(&share->left, 1, __ATOMIC_ACQ_REL) == team()->size) __atomic_store_n(&share->state, 0, __ATOMIC_RELEASE);
  self.share = nullptr;
}

template <class T>
PLAIN void fill_loop(Share* share, T start, T end, T step, T chunk, bool down, int schedule) {
  const uint64_t from = static_cast<uint64_t>(start), to = static_cast<uint64_t>(end), by = static_cast<uint64_t>(step);
  share->down = down;
  share->start = from;
  share->step = by;
  const bool empty = down ? start <= end : start >= end;
  const uint64_t distance = down ? from - to : to - from, stride = down ? 0 - by : by;
  share->count = empty ? 0 : (distance + stride - 1) / stride;
  share->schedule = schedule;
  share->chunk = static_cast<uint64_t>(chunk);
  if (schedule == 'd' && !share->chunk) share->chunk = 1;
}

// Nobody goes on to his next chunk before everybody before him was in his ordered region.
PLAIN void pass_turn() {
  Share* share = self.share;
  if (!self.inside) return;
  self.inside = false;
  while (__atomic_load_n(&share->turn, __ATOMIC_ACQUIRE) != self.ticket) sched_yield();
  __atomic_store_n(&share->turn, self.ticket + 1, __ATOMIC_RELEASE);
}

template <class T>
PLAIN bool next_chunk(T* from, T* to) {
  Share* share = self.share;
  pass_turn();
  uint64_t first, last;
  if (share->schedule == 's') {
    const uint64_t size = static_cast<uint64_t>(team()->size), number = static_cast<uint64_t>(self.number);
    const uint64_t chunk = share->chunk ? share->chunk : (share->count + size - 1) / size;
    if (!share->chunk && self.step) return false;
    const uint64_t ticket = self.step++ * size + number;
    first = ticket * chunk;
    self.ticket = ticket;
    last = first + chunk;
  } else {
    // Relaxed: who takes a chunk learns nothing of who took the one before.
    first = __atomic_fetch_add(&share->next, share->chunk, __ATOMIC_RELAXED);
    self.ticket = first / share->chunk;
    last = first + share->chunk;
  }
  if (first >= share->count) return false;
  if (last > share->count) last = share->count;
  *from = static_cast<T>(share->start + first * share->step);
  *to = static_cast<T>(share->start + last * share->step);
  self.inside = true;
  return true;
}

template <class T>
PLAIN bool start_loop(T start, T end, T step, T chunk, bool down, int schedule, T* from, T* to) {
  bool made;
  Share* share = meet(&made);
  if (made) {
    fill_loop(share, start, end, step, chunk, down, schedule);
    ready(share);
  }
  return next_chunk(from, to);
}

PLAIN void lock(char* word) {
  while (__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE)) sched_yield();
  __tsan_acquire(word);
}

PLAIN void unlock(char* word) {
  __tsan_release(word);
  __atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

char critical_word, atomic_word, ordered_word;

}  // namespace

// The C library's lgamma also writes a global sign, from every thread: its own affair, not a race of the kernel.
EXPORT double lgamma(double x) noexcept {
  int sign;
  return lgamma_r(x, &sign);
}
EXPORT float lgammaf(float x) noexcept {
  int sign;
  return lgammaf_r(x, &sign);
}

EXPORT void GOMP_parallel(void (*f)(void*), void* data, unsigned threads, unsigned) { run_team(f, data, threads, nullptr); }
EXPORT void GOMP_barrier() { barrier(); }
EXPORT void GOMP_critical_start() { lock(&critical_word); }
EXPORT void GOMP_critical_end() { unlock(&critical_word); }
EXPORT void GOMP_critical_name_start(void** name) { lock(reinterpret_cast<char*>(name)); }
EXPORT void GOMP_critical_name_end(void** name) { unlock(reinterpret_cast<char*>(name)); }
EXPORT void GOMP_atomic_start() { lock(&atomic_word); }
EXPORT void GOMP_atomic_end() { unlock(&atomic_word); }

#define LOOP(NAME, SCHEDULE)                                                                                             \
  EXPORT bool GOMP_loop_##NAME##_start(long a, long b, long by, long chunk, long* from, long* to) {                      \
    return start_loop<long>(a, b, by, chunk, by < 0, SCHEDULE, from, to);                                                \
  }                                                                                                                      \
  EXPORT bool GOMP_loop_##NAME##_next(long* from, long* to) { return next_chunk<long>(from, to); }                       \
  EXPORT bool GOMP_loop_ull_##NAME##_start(bool up, unsigned long long a, unsigned long long b, unsigned long long by,   \
                                           unsigned long long chunk, unsigned long long* from, unsigned long long* to) { \
    return start_loop<unsigned long long>(a, b, by, chunk, !up, SCHEDULE, from, to);                                     \
  }                                                                                                                      \
  EXPORT bool GOMP_loop_ull_##NAME##_next(unsigned long long* from, unsigned long long* to) {                            \
    return next_chunk<unsigned long long>(from, to);                                                                     \
  }

// Without a chunk in the call: schedule(runtime) and its variants.
#define RUNTIME_LOOP(NAME)                                                                                             \
  EXPORT bool GOMP_loop_##NAME##_start(long a, long b, long by, long* from, long* to) {                                \
    return start_loop<long>(a, b, by, 1, by < 0, 'd', from, to);                                                       \
  }                                                                                                                    \
  EXPORT bool GOMP_loop_##NAME##_next(long* from, long* to) { return next_chunk<long>(from, to); }                     \
  EXPORT bool GOMP_loop_ull_##NAME##_start(bool up, unsigned long long a, unsigned long long b, unsigned long long by, \
                                           unsigned long long* from, unsigned long long* to) {                         \
    return start_loop<unsigned long long>(a, b, by, 1, !up, 'd', from, to);                                            \
  }                                                                                                                    \
  EXPORT bool GOMP_loop_ull_##NAME##_next(unsigned long long* from, unsigned long long* to) {                          \
    return next_chunk<unsigned long long>(from, to);                                                                   \
  }

#define PARALLEL_LOOP(NAME, SCHEDULE)                                                                                    \
  EXPORT void GOMP_parallel_loop_##NAME(void (*f)(void*), void* data, unsigned threads, long a, long b, long by,         \
                                        long chunk, unsigned) {                                                          \
    Share share = {};                                                                                                    \
    fill_loop<long>(&share, a, b, by, chunk, by < 0, SCHEDULE);                                                          \
    run_team(f, data, threads, &share);                                                                                  \
  }

#define PARALLEL_RUNTIME_LOOP(NAME)                                                                                      \
  EXPORT void GOMP_parallel_loop_##NAME(void (*f)(void*), void* data, unsigned threads, long a, long b, long by, unsigned) { \
    Share share = {};                                                                                                    \
    fill_loop<long>(&share, a, b, by, 1, by < 0, 'd');                                                                   \
    run_team(f, data, threads, &share);                                                                                  \
  }

LOOP(static, 's')
LOOP(dynamic, 'd')
LOOP(guided, 'd')
LOOP(nonmonotonic_dynamic, 'd')
LOOP(nonmonotonic_guided, 'd')
LOOP(ordered_static, 's')
LOOP(ordered_dynamic, 'd')
LOOP(ordered_guided, 'd')
RUNTIME_LOOP(runtime)
RUNTIME_LOOP(nonmonotonic_runtime)
RUNTIME_LOOP(maybe_nonmonotonic_runtime)
RUNTIME_LOOP(ordered_runtime)
PARALLEL_LOOP(static, 's')
PARALLEL_LOOP(dynamic, 'd')
PARALLEL_LOOP(guided, 'd')
PARALLEL_LOOP(nonmonotonic_dynamic, 'd')
PARALLEL_LOOP(nonmonotonic_guided, 'd')
PARALLEL_RUNTIME_LOOP(runtime)
PARALLEL_RUNTIME_LOOP(nonmonotonic_runtime)
PARALLEL_RUNTIME_LOOP(maybe_nonmonotonic_runtime)

EXPORT void GOMP_loop_end_nowait() {
  pass_turn();
  leave();
}
EXPORT void GOMP_loop_end() {
  GOMP_loop_end_nowait();
  barrier();
}
EXPORT void GOMP_ordered_start() {
  while (self.share && __atomic_load_n(&self.share->turn, __ATOMIC_ACQUIRE) != self.ticket) sched_yield();
  __tsan_acquire(&ordered_word);
}
EXPORT void GOMP_ordered_end() { __tsan_release(&ordered_word); }

EXPORT unsigned GOMP_sections_next() {
  Share* share = self.share;
  const uint64_t mine = __atomic_fetch_add(&share->next, 1, __ATOMIC_RELAXED);
  return mine < share->count ? static_cast<unsigned>(mine + 1) : 0;
}
EXPORT unsigned GOMP_sections_start(unsigned count) {
  bool made;
  Share* share = meet(&made);
  if (made) {
    share->count = count;
    ready(share);
  }
  return GOMP_sections_next();
}
EXPORT void GOMP_parallel_sections(void (*f)(void*), void* data, unsigned threads, unsigned count, unsigned) {
  Share share = {};
  share.count = count;
  run_team(f, data, threads, &share);
}
EXPORT void GOMP_sections_end_nowait() { leave(); }
EXPORT void GOMP_sections_end() {
  leave();
  barrier();
}

EXPORT bool GOMP_single_start() {
  bool made;
  Share* share = meet(&made);
  if (made) ready(share);
  leave();
  return made;
}
EXPORT void* GOMP_single_copy_start() {
  bool made;
  Share* share = meet(&made);
  if (made) {
    ready(share);
    return nullptr;
  }
  while (!__atomic_load_n(&share->copied_ready, __ATOMIC_ACQUIRE)) sched_yield();
  __tsan_acquire(share);
  void* found = share->copied;
  leave();
  barrier();
  return found;
}
EXPORT void GOMP_single_copy_end(void* data) {
  Share* share = self.share;
  share->copied = data;
  __tsan_release(share);
  __atomic_store_n(&share->copied_ready, 1, __ATOMIC_RELEASE);
  leave();
  barrier();
}

// Tasks run at once, by the thread that meets them, as OpenMP permits.
EXPORT void GOMP_task(void (*f)(void*), void* data, void (*copy)(void*, void*), long size, long align, bool, unsigned, void**, int,
                      void*) {
  if (!copy) return f(data);
  std::vector<char> space(static_cast<size_t>(size + align));
  char* at = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(space.data()) + static_cast<size_t>(align) - 1) &
                                     ~(static_cast<uintptr_t>(align) - 1));
  copy(at, data);
  f(at);
}
EXPORT void GOMP_taskloop(void (*f)(void*), void* data, void (*copy)(void*, void*), long size, long align, unsigned, unsigned long,
                          int, long start, long end, long) {
  std::vector<char> space(static_cast<size_t>(size + align));
  char* at = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(space.data()) + static_cast<size_t>(align) - 1) &
                                     ~(static_cast<uintptr_t>(align) - 1));
  if (copy) copy(at, data);
  else memcpy(at, data, static_cast<size_t>(size));
  reinterpret_cast<long*>(at)[0] = start;
  reinterpret_cast<long*>(at)[1] = end;
  f(at);
}
EXPORT void GOMP_taskwait() {}
EXPORT void GOMP_taskyield() {}
EXPORT void GOMP_taskgroup_start() {}
EXPORT void GOMP_taskgroup_end() {}

EXPORT int omp_get_thread_num() { return self.number; }
EXPORT int omp_get_num_threads() { return team()->size; }
EXPORT int omp_get_max_threads() { return most_threads; }
EXPORT int omp_get_num_procs() { return most_threads; }
EXPORT int omp_get_thread_limit() { return most_threads; }
EXPORT int omp_get_dynamic() { return 0; }
EXPORT int omp_get_nested() { return 0; }
EXPORT int omp_get_cancellation() { return 0; }
EXPORT int omp_get_max_active_levels() { return 1; }
EXPORT int omp_get_level() { return team()->level; }
EXPORT int omp_get_active_level() { return team()->size > 1 ? 1 : 0; }
EXPORT int omp_in_parallel() { return team()->size > 1 ? 1 : 0; }
EXPORT int omp_get_team_size(int level) { return level == team()->level ? team()->size : level == 0 ? 1 : -1; }
EXPORT int omp_get_ancestor_thread_num(int level) { return level == team()->level ? self.number : level == 0 ? 0 : -1; }

#define LOCKS(KIND)                                                                                     \
  EXPORT void omp_init_##KIND(void* word) { memset(word, 0, 4); }                                       \
  EXPORT void omp_destroy_##KIND(void*) {}                                                              \
  EXPORT void omp_set_##KIND(void* word) { lock(static_cast<char*>(word)); }                            \
  EXPORT void omp_unset_##KIND(void* word) { unlock(static_cast<char*>(word)); }                        \
  EXPORT int omp_test_##KIND(void* word) {                                                              \
    if (__atomic_exchange_n(static_cast<char*>(word), 1, __ATOMIC_ACQUIRE)) return 0;                   \
    __tsan_acquire(word);                                                                               \
    return 1;                                                                                           \
  }
LOCKS(lock)
#endif  // KW_TEAMS

namespace {

struct Buffer {
  std::string name;
  size_t size;
  char kind;
};

[[noreturn]] void give_up(const char* why, const std::string& what) {
  fprintf(stderr, "checked_runner: %s: %s\n", why, what.c_str());
  _Exit(70);
}

void read_file(const std::string& path, void* to, size_t size) {
  FILE* file = fopen(path.c_str(), "rb");
  if (!file || fread(to, 1, size, file) != size) give_up("cannot be read", path);
  fclose(file);
}

using Entry = void (*)(void* const*, const int64_t*);

void call(Entry entry, const int64_t* axes, const std::vector<Buffer>& buffers, const std::string& folder, int draw) {
  std::vector<void*> pointers(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (posix_memalign(&pointers[i], 64, buffers[i].size)) give_up("no memory for", buffers[i].name);
    if (buffers[i].kind == 'i')
      read_file(folder + "/" + std::to_string(draw) + "." + std::to_string(i), pointers[i], buffers[i].size);
    else
      memset(pointers[i], 0x5A, buffers[i].size);
    printf("buffer %s %p %zu\n", buffers[i].name.c_str(), pointers[i], buffers[i].size);
  }
  fflush(stdout);
  entry(pointers.data(), axes);
  for (void* pointer : pointers) free(pointer);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) return 64;
  std::vector<int64_t> axes(8);  // the sizes of dynamic axes come last
  for (int i = 4; i < count && i < 12; ++i) axes[i - 4] = atoll(arguments[i]);
  const std::string folder = arguments[1];
#ifdef KW_TEAMS
  most_threads = atoi(arguments[3]);
#endif
  FILE* plan = fopen((folder + "/plan").c_str(), "r");
  int draws = 0, found = 0;
  if (!plan || fscanf(plan, "%d %d", &draws, &found) != 2) give_up("cannot be read", folder);
  std::vector<Buffer> buffers(static_cast<size_t>(found));
  for (Buffer& buffer : buffers) {
    char name[256];
    if (fscanf(plan, "%255s %zu %c", name, &buffer.size, &buffer.kind) != 3) give_up("cannot be read", "plan");
    buffer.name = name;
  }
  fclose(plan);
  void* library = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL);
  if (!library) give_up("cannot be loaded", dlerror());
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "kw_entry"));
  if (!entry) give_up("has no entry", arguments[2]);
  for (int draw = 0; draw < draws; ++draw) call(entry, axes.data(), buffers, folder, draw);
  puts("done");
  return 0;
}
