// SPDX-License-Identifier: Apache-2.0
// The thread pool of a process: hg_pool_run calls a function for the chunks of a range, on the caller's thread and on those
// workers that come. Where chunks begin does not depend on the number of threads; one thread takes all in one call.
//
// The caller takes chunks itself. Workers that are awake join, and the caller waits only for those that have joined. Idle
// workers spin for a while, then sleep until a job is worth waking them. A second caller meanwhile, or one inside
// a chunk, takes all of its own at once. A forked child starts afresh. See docs/cpu.md.
//
// Compiled by itself and opened once a process: backends/cpu/thread_pool.py.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HG_POOL_API extern "C" __attribute__((visibility("default")))
#ifdef __GLIBC__
extern "C" int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void*);
#endif

namespace {

typedef long long Index;
typedef void (*Body)(void*, Index, Index);

const uint64_t kSpin = 200000;         // ns that an idle worker spins: BLAS loses more by longer, calls that repeat by shorter
const uint64_t kWake = 60000;          // ns of work ahead that are worth waking workers
const uint64_t kLate = 200000;         // ns for which a worker may keep its caller waiting, besides three chunks
const uint64_t kAway = 5000000;        // ns that a worker which kept its caller waiting stays away, at first, …
const uint64_t kLongestAway = 200000000;  // … and at most
const uint64_t kPatience = 100000;     // ns that a caller spins for its workers before it sleeps

// -- shared words, each in a cache line of its own

struct alignas(64) Word {
  uint64_t value;
};
struct alignas(64) Bell {
  uint32_t value;
};
const uint64_t kInside = 1, kRoom = 1 << 16, kJob = 1ull << 32;
Word state;              // number of the job | workers that may still join | workers that are inside
Word next;               // where the next chunk begins
Bell bell;               // rung for sleeping workers
Bell parked;             // for those that may not work: beyond the number of threads, or away
Bell finished;           // 1 while the caller sleeps until workers have left
struct alignas(64) {
  Body body;
  void* context;
  Index total, chunk;
  uint64_t closed, chunk_ns;  // when the caller ran out of chunks, and how long one of its own took
  int cpu;
  pid_t thread;
} job;
alignas(64) int owner;   // 1 while a caller has the pool
int sleepers;            // workers that wait for the bell
int worker_cpu;          // of the worker that joined last
int limit = 1, started;  // threads, and workers that exist
uint64_t owed, ended;    // work of jobs in quick succession that sleeping workers did not help with
bool handles_forks;
__thread pid_t self;

template <typename T>
inline T load(const T& x) {
  return __atomic_load_n(&x, __ATOMIC_SEQ_CST);
}
template <typename T>
inline void store(T& x, T value) {
  __atomic_store_n(&x, value, __ATOMIC_SEQ_CST);
}
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}
inline uint64_t ticks() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}
void wait(Bell& on, uint32_t value, const timespec* most = 0) {
  syscall(SYS_futex, &on.value, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, value, most, 0, 0);
}
void wake(Bell& on, int count) { syscall(SYS_futex, &on.value, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, 0, 0, 0); }

int room(uint64_t s) { return (int)(s / kRoom & 0xffff); }
uint32_t number(uint64_t s) { return (uint32_t)(s / kJob); }

// Wake some workers; each wakes others in turn, so that the caller does not pay for all of them.
void ring() {
  if (!load(sleepers)) return;
  __atomic_fetch_add(&bell.value, 1, __ATOMIC_SEQ_CST);
  wake(bell, 2);
}

// -- jobs

inline bool run_chunk() {
  const Index begin = (Index)__atomic_fetch_add(&next.value, (uint64_t)job.chunk, __ATOMIC_RELAXED);
  if (begin >= job.total) return false;
  job.body(job.context, begin, job.total - begin < job.chunk ? job.total : begin + job.chunk);
  return true;
}

// A worker that was woken on its caller's processor, as some kernels do, goes to another one of those that the caller may
// use now.
void move_apart() {
  const int here = sched_getcpu();
  __atomic_store_n(&worker_cpu, here, __ATOMIC_RELAXED);
  if (here < 0 || here != job.cpu) return;
  cpu_set_t allowed;
  if (sched_getaffinity(job.thread, sizeof allowed, &allowed)) return;
  CPU_CLR(here, &allowed);
  if (CPU_COUNT(&allowed)) sched_setaffinity(0, sizeof allowed, &allowed);
}

// Leave a job; how many ns the caller waited beyond what three chunks take.
uint64_t leave() {
  uint64_t late = 0;
  if (const uint64_t closed = load(job.closed)) {
    const uint64_t kept = ticks() - closed, fair = kLate + 3 * job.chunk_ns;
    late = kept > fair ? kept - fair : 0;
  }
  const uint64_t before = __atomic_fetch_sub(&state.value, kInside, __ATOMIC_SEQ_CST);
  if ((before & 0xffff) == 1 && load(finished.value)) {
    store(finished.value, 0u);
    wake(finished, 1);
  }
  return late;
}

void* work(void* position) {
  const int index = (int)(intptr_t)position;
  prctl(PR_SET_NAME, "hybridgpu");
  uint32_t last = 0;
  uint64_t since = ticks(), away = 0;
  bool slept = true;
  for (unsigned turns = 0;; ++turns) {
    uint64_t s = load(state.value);
    if (room(s) && number(s) != last && index < load(limit) - 1) {
      if (!__atomic_compare_exchange_n(&state.value, &s, s - kRoom + kInside, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
      last = number(s);
      if (slept && room(s) > 1) ring();
      slept = false;
      move_apart();
      while (run_chunk()) {
      }
      if (leave()) {  // it was kept from running: its processor has other work
        away = away ? (away * 2 < kLongestAway ? away * 2 : kLongestAway) : kAway;
        const timespec most = {(time_t)(away / 1000000000), (long)(away % 1000000000)};
        wait(parked, load(parked.value), &most);
      } else {
        away -= away >> 6;
        if (away < kAway) away = 0;
      }
      since = ticks();
      turns = 0;
      continue;
    }
    pause_briefly();
    if (turns % 64 != 63 || ticks() - since < kSpin) continue;
    const uint32_t heard = load(bell.value), called = load(parked.value);
    if (index >= load(limit) - 1) {
      wait(parked, called);
    } else {
      __atomic_fetch_add(&sleepers, 1, __ATOMIC_SEQ_CST);
      s = load(state.value);
      if (!room(s) || number(s) == last) wait(bell, heard);
      __atomic_fetch_sub(&sleepers, 1, __ATOMIC_SEQ_CST);
    }
    slept = true;
    since = ticks();
  }
}

void forget_workers() {
  self = 0;
  started = sleepers = 0;
  state.value = 0;
  finished.value = 0;
  owner = 0;
  owed = 0;
}

void start_workers() {
  if (!handles_forks) {
#ifdef __GLIBC__
    __register_atfork(0, 0, forget_workers, 0);
#else
    pthread_atfork(0, 0, forget_workers);
#endif
    handles_forks = true;
  }
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);  // signals (KeyboardInterrupt) stay with Python's threads
  pthread_attr_t a;
  pthread_attr_init(&a);
  pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&a, 8 << 20);  // kernels keep panels on the stack
  for (; started < limit - 1; ++started) {
    pthread_t thread;
    if (pthread_create(&thread, &a, work, (void*)(intptr_t)started)) {
      store(limit, started + 1);  // no more are to be had
      break;
    }
  }
  pthread_attr_destroy(&a);
  pthread_sigmask(SIG_SETMASK, &old, 0);
}

// Until the workers that joined have left. One that waits on this processor is let in.
void wait_for_workers(uint64_t closed, uint64_t patience) {
  for (unsigned turns = 1; load(state.value) & 0xffff; ++turns) {
    pause_briefly();
    if (turns % 1024) continue;
    const uint64_t waited = ticks() - closed;
    if (waited > patience) {
      store(finished.value, 1u);
      if (load(state.value) & 0xffff) wait(finished, 1);
      store(finished.value, 0u);
    } else if (waited > kPatience / 2 && __atomic_load_n(&worker_cpu, __ATOMIC_RELAXED) == sched_getcpu()) {
      sched_yield();
    }
  }
}

}  // namespace

// How many threads work on a job, the caller's included.
HG_POOL_API void hg_pool_resize(int threads) {
  store(limit, threads < 1 ? 1 : threads > 0x7fff ? 0x7fff : threads);
  __atomic_fetch_add(&parked.value, 1, __ATOMIC_SEQ_CST);
  wake(parked, 0x7fffffff);
}

// Workers that exist.
HG_POOL_API int hg_pool_workers() { return started; }

// body(context, begin, end) for all chunks of 0 … n - 1, one or several at a time; for 0, 0 if n is 0. `chunk` elements
// each, of the last one what is left.
HG_POOL_API void hg_pool_run(Index n, Index chunk, Body body, void* context) {
  if (n <= chunk || load(limit) < 2 || __atomic_load_n(&owner, __ATOMIC_RELAXED) ||
      __atomic_exchange_n(&owner, 1, __ATOMIC_ACQUIRE)) {
    body(context, 0, n);
    return;
  }
  if (!self) self = (pid_t)syscall(SYS_gettid);
  const uint64_t began = ticks();
  if (began - ended > kSpin) owed = 0;
  const Index chunks = (n - 1) / chunk + 1;
  const int helpers = load(limit) - 1 < chunks - 1 ? load(limit) - 1 : (int)(chunks - 1);
  job.body = body;
  job.context = context;
  job.total = n;
  job.chunk = chunk;
  job.cpu = sched_getcpu();
  job.thread = self;
  __atomic_store_n(&job.closed, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&next.value, 0, __ATOMIC_RELAXED);
  const uint64_t opened = (number(load(state.value)) + 1ull) * kJob + helpers * kRoom;
  store(state.value, opened);
  Index mine = run_chunk();
  if (mine && (started < limit - 1 || load(sleepers))) {
    owed += (ticks() - began) * (chunks - 1);
    if (owed >= kWake) {
      owed = 0;
      if (started < limit - 1) start_workers();
      ring();
    }
  }
  while (run_chunk()) ++mine;
  const uint64_t closed = ticks(), each = (closed - began) / (mine ? mine : 1);
  job.chunk_ns = each;
  store(job.closed, closed);
  __atomic_fetch_and(&state.value, ~(0xffff * kRoom), __ATOMIC_SEQ_CST);
  if (load(state.value) & 0xffff) wait_for_workers(closed, kPatience + 2 * each);
  ended = closed;
  __atomic_store_n(&owner, 0, __ATOMIC_RELEASE);
}
