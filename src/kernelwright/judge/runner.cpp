// The runner: a small process that holds one sealed candidate, its inputs and its outputs, and nothing else.
//
//   runner CONTROL_FD REPLY_FD INPUT_FD OUTPUT_FD WORKSPACE_FD LIBRARY_FD
//
// It maps the inputs read-only (their descriptor was opened read-only, so no call can make them writable), makes its
// thread pool, locks itself in with two seccomp filters - one before the library is loaded, a stricter one before its
// first call - and then obeys `run` commands, each answered with the start and end of every call on CLOCK_MONOTONIC.
// Expected values, other candidates' answers and verdicts never enter this process. What it says about time is
// checked by the judge's own clock (integrity.py).
//
// Covers: system calls, files, new processes and threads, writes to inputs, executable memory, runaway memory.
// Does not cover: code that overwrites the runner's own data. That can only forge an answer that the judge's clock and
// the outputs contradict. Nor the clock: clock_gettime is answered in user space where the machine can (vDSO) and by the
// kernel elsewhere, so the call stays open; inspection refuses the import, the system-call and the counter instructions,
// and a jump to a computed address of the vDSO is what remains.
//
// Messages are native-endian and packed by hand; the other end is runner.py.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <omp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <initializer_list>

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#else
#error "the runner's filter knows x86_64 and aarch64 only"
#endif

namespace {

constexpr uint32_t kMaxCalls = 4096;
constexpr uint32_t kMaxBuffers = 256;
constexpr uint32_t kMaxAxes = 8;
constexpr uint64_t kMoat = 1u << 28;  // runner.py knows it as MOAT_BYTES
constexpr uint32_t kMagic = 0x6b77726e;  // "nrwk"
enum Reply : uint32_t { kReady = 1, kDone = 2, kFault = 3, kLoadFailed = 4 };
enum Command : uint32_t { kRun = 1, kPerturb = 2 };

struct Setup {
  uint32_t magic, threads, buffers, slots;
  uint64_t region_bytes[3];
  uint64_t memory_bytes, cpu_seconds;
};
struct Buffer {
  uint64_t region, offset, stride;
};
struct Header {
  uint32_t kind, count;
};
struct Stamp {
  uint64_t start_ns, end_ns;
};
struct Fault {
  uint32_t kind, signal;
  uint64_t address, system_call;
};

int control_fd, reply_fd;
char* base[3];
Setup setup;
Buffer buffers[kMaxBuffers];
int64_t axes[kMaxAxes];
uint32_t slots[kMaxCalls];
Stamp stamps[kMaxCalls];

[[noreturn]] void give_up(const char* why) {
  fprintf(stderr, "runner: %s: %s\n", why, strerror(errno));
  _exit(70);
}

void read_all(void* to, size_t count) {
  char* at = static_cast<char*>(to);
  while (count) {
    ssize_t got = read(control_fd, at, count);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) _exit(0);  // the judge is gone
    at += got;
    count -= static_cast<size_t>(got);
  }
}

void write_all(const void* from, size_t count) {
  const char* at = static_cast<const char*>(from);
  while (count) {
    ssize_t put = write(reply_fd, at, count);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) _exit(0);
    at += put;
    count -= static_cast<size_t>(put);
  }
}

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);  // answered in user space (vDSO)
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

void on_fault(int signal, siginfo_t* info, void*) {
  Fault fault{kFault, static_cast<uint32_t>(signal), reinterpret_cast<uint64_t>(info->si_addr), 0};
  if (signal == SIGSYS) fault.system_call = static_cast<uint64_t>(info->si_syscall);
  write_all(&fault, sizeof fault);
  _exit(71);
}

void watch_faults() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS})
    if (sigaction(signal, &action, nullptr)) give_up("sigaction");
}

// Every thread needs a stack of its own for the handler, or an overflow of its stack cannot be reported.
void own_signal_stack() {
  static thread_local char space[16384];
  stack_t stack{};
  stack.ss_sp = space;
  stack.ss_size = sizeof space;
  if (sigaltstack(&stack, nullptr)) give_up("sigaltstack");
}

void limit(int which, uint64_t most, uint64_t hard = 0) {
  rlimit bound{most, hard ? hard : most};
  if (setrlimit(static_cast<__rlimit_resource>(which), &bound)) give_up("setrlimit");
}

// Each region lies in the middle of addresses that nobody may touch, so that who leaves one does not reach another.
char* map(int fd, uint64_t bytes, int protection) {
  if (!bytes) return nullptr;
  void* all = mmap(nullptr, bytes + 2 * kMoat, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) give_up("mmap");
  // Populated now, so that page faults are nobody's time.
  void* at = mmap(static_cast<char*>(all) + kMoat, bytes, protection, MAP_SHARED | MAP_POPULATE | MAP_FIXED, fd, 0);
  if (at == MAP_FAILED) give_up("mmap");
  return static_cast<char*>(at);
}

// ------------------------------------------------------------------------------------------------ system calls

// Both supported architectures are little-endian.
constexpr uint32_t low_half(int argument) { return static_cast<uint32_t>(offsetof(seccomp_data, args)) + 8u * argument; }

struct Filter {
  sock_filter code[160];
  unsigned short length = 0;

  void add(uint16_t op, uint32_t k, uint8_t yes = 0, uint8_t no = 0) { code[length++] = {op, yes, no, k}; }
  void load(uint32_t offset) { add(BPF_LD | BPF_W | BPF_ABS, offset); }
  void answer(uint32_t what) { add(BPF_RET | BPF_K, what); }
  void begin() {
    load(offsetof(seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1, 0);
    answer(SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));
  }
  void allow(long number) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1);
    answer(SECCOMP_RET_ALLOW);
  }
  void refuse(long number, uint32_t error) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1);
    answer(SECCOMP_RET_ERRNO | error);
  }
  // Allowed where argument `index` equals `want`, both halves of it.
  void allow_if_equal(long number, int index, uint32_t want) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 6);
    load(low_half(index));
    add(BPF_JMP | BPF_JEQ | BPF_K, want, 0, 3);
    load(low_half(index) + 4);
    add(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1);
    answer(SECCOMP_RET_ALLOW);
    answer(SECCOMP_RET_TRAP);
  }
  // Allowed where none of the bits is set in the two arguments.
  void allow_unless_bits(long number, int index, uint32_t bits, int index2, uint32_t bits2) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 6);
    load(low_half(index));
    add(BPF_JMP | BPF_JSET | BPF_K, bits, 3, 0);
    load(low_half(index2));
    add(BPF_JMP | BPF_JSET | BPF_K, bits2, 1, 0);
    answer(SECCOMP_RET_ALLOW);
    answer(SECCOMP_RET_TRAP);
  }
  void install() {
    answer(SECCOMP_RET_TRAP);
    sock_fprog program{length, code};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) give_up("seccomp");
  }
};

void common(Filter& f) {
  f.allow(SYS_futex);
  f.allow_if_equal(SYS_write, 0, static_cast<uint32_t>(reply_fd));
  f.allow_if_equal(SYS_read, 0, static_cast<uint32_t>(control_fd));
  // The allocator's only advice; others reach into memory that the judge shares.
  f.allow_if_equal(SYS_madvise, 2, MADV_DONTNEED);
  for (long number : {SYS_clock_gettime, SYS_brk, SYS_munmap, SYS_sched_yield, SYS_exit, SYS_exit_group,
                      SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_restart_syscall, SYS_sched_getaffinity})
    f.allow(number);
}

// While the library is loaded: files can be opened for reading and mapped, nothing can be started or sent.
void lock_for_loading() {
  Filter f;
  f.begin();
  f.allow(SYS_read);
  common(f);
  f.allow_unless_bits(SYS_openat, 2, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 2, 0);
  for (long number : {SYS_mmap, SYS_mprotect, SYS_close, SYS_fstat, SYS_newfstatat, SYS_pread64, SYS_lseek,
                      SYS_readlinkat, SYS_faccessat, SYS_getrandom, SYS_seccomp, SYS_statx})
    f.allow(number);
#if defined(__x86_64__)
  for (long number : {SYS_access, SYS_readlink}) f.allow(number);
#endif
  f.install();
}

// From then on: memory without a file behind it, waiting, and the two pipes.
void lock_for_running() {
  Filter f;
  f.begin();
  common(f);
  f.allow_unless_bits(SYS_mmap, 2, PROT_EXEC, 3, MAP_FIXED | MAP_SHARED);
  f.refuse(SYS_mremap, ENOMEM);  // realloc then copies
  f.install();
}

// ----------------------------------------------------------------------------------------------------- commands

using Entry = void (*)(void* const*, const int64_t*);

void run(Entry entry, uint32_t count) {
  if (count > kMaxCalls) give_up("too many calls");
  read_all(slots, count * sizeof *slots);
  void* pointers[kMaxBuffers];
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t b = 0; b < setup.buffers; ++b)
      pointers[b] = base[buffers[b].region] + buffers[b].offset + slots[i] * buffers[b].stride;
    const uint64_t start_ns = now_ns();
    entry(pointers, axes);
    const uint64_t end_ns = now_ns();
    stamps[i] = {start_ns, end_ns};
  }
  const Header header{kDone, count};
  write_all(&header, sizeof header);
  write_all(stamps, count * sizeof *stamps);
}

Entry load(int library_fd) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", library_fd);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* symbol = library ? dlsym(library, "kw_entry") : nullptr;
  if (!symbol) {
    const char* why = dlerror();
    const Header header{kLoadFailed, static_cast<uint32_t>(strnlen(why ? why : "", 1000))};
    write_all(&header, sizeof header);
    write_all(why, header.count);
    _exit(72);
  }
  return reinterpret_cast<Entry>(symbol);
}

void prepare(char** arguments) {
  const int input_fd = atoi(arguments[3]), output_fd = atoi(arguments[4]), workspace_fd = atoi(arguments[5]);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) || prctl(PR_SET_DUMPABLE, 0) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    give_up("prctl");
  read_all(&setup, sizeof setup);
  if (setup.magic != kMagic || setup.buffers > kMaxBuffers) give_up("not a setup message");
  read_all(buffers, setup.buffers * sizeof *buffers);
  read_all(axes, sizeof axes);
  mallopt(M_ARENA_MAX, 1);  // further arenas would need mprotect
  base[0] = map(input_fd, setup.region_bytes[0], PROT_READ);
  base[1] = map(output_fd, setup.region_bytes[1], PROT_READ | PROT_WRITE);
  base[2] = map(workspace_fd, setup.region_bytes[2], PROT_READ | PROT_WRITE);
  watch_faults();
#pragma omp parallel num_threads(static_cast<int>(setup.threads))
  {
    own_signal_stack();
#pragma omp barrier
  }
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_DATA, setup.memory_bytes);
  limit(RLIMIT_CPU, setup.cpu_seconds, setup.cpu_seconds + 2);  // first SIGXCPU, which tells it from a kill by others
  for (int fd : {input_fd, output_fd, workspace_fd}) close(fd);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 7) return 64;
  control_fd = atoi(arguments[1]);
  reply_fd = atoi(arguments[2]);
  prepare(arguments);
  lock_for_loading();
  const int library_fd = atoi(arguments[6]);
  const Entry entry = load(library_fd);
  close(library_fd);
  lock_for_running();
  const struct {
    Header header;
    uint64_t base[3];
  } ready{{kReady, 3}, {reinterpret_cast<uint64_t>(base[0]), reinterpret_cast<uint64_t>(base[1]), reinterpret_cast<uint64_t>(base[2])}};
  write_all(&ready, sizeof ready);
  for (;;) {
    Header command;
    read_all(&command, sizeof command);
    if (command.kind == kRun)
      run(entry, command.count);
    else if (command.kind == kPerturb)
      mallopt(M_PERTURB, static_cast<int>(command.count));  // what malloc gives is never by chance zero
    else
      _exit(73);
  }
}
