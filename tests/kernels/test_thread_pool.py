# SPDX-License-Identifier: Apache-2.0
"""The thread pool by itself: each chunk runs once, from several callers, after fork(), on one processor, beside busy ones.

What is asked is that results are right and nothing hangs, never how long something takes: machines are busy.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from hybridgpu.cache.package_files import kernels_folder

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the pool sleeps by futex")

_CHECKER = r"""
#include "thread_pool.h"
#define API extern "C" __attribute__((visibility("default")))
struct Marks { int* counts; Index n, chunk, busy, calls, apart; };
static void mark(void* context, Index begin, Index end) {
  Marks& marks = *(Marks*)context;
  __atomic_fetch_add(&marks.calls, 1, __ATOMIC_RELAXED);
  if (begin % marks.chunk || (end % marks.chunk && end != marks.n)) __atomic_fetch_add(&marks.apart, 1, __ATOMIC_RELAXED);
  for (Index i = begin; i < end; ++i) {
    __atomic_fetch_add(&marks.counts[i], 1, __ATOMIC_RELAXED);
    for (volatile Index k = 0; k < marks.busy; ++k) {}
  }
}
// Runs so many jobs; how many elements were visited another number of times than once a job, and calls that cut a chunk.
API Index check(Index n, Index chunk, int jobs, Index busy, int* counts) {
  Marks marks = {counts, n, chunk, busy, 0, 0};
  for (int j = 0; j < jobs; ++j) hg_pool_run(n, chunk, mark, &marks);
  Index wrong = marks.apart;
  for (Index i = 0; i < n; ++i) wrong += counts[i] != jobs;
  return wrong;
}
// How many calls run a job.
API Index calls(Index n, Index chunk, int* counts) {
  Marks marks = {counts, n, chunk, 0, 0, 0};
  hg_pool_run(n, chunk, mark, &marks);
  return marks.calls;
}
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pool")
    (folder / "checker.cpp").write_text(_CHECKER)

    def built(*flags):
        out = folder / f"checker{len(os.listdir(folder))}.so"
        command = ["g++", "-std=c++17", "-O2", "-shared", "-fPIC", f"-I{kernels_folder()}", *flags]
        done = subprocess.run(
            [*command, "-Wall", "-Wextra", "-Werror", str(folder / "checker.cpp"), "-o", str(out), "-lpthread"],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return out

    return built


@pytest.fixture(scope="module")
def pool(build):
    library = ctypes.CDLL(str(build()))
    library.check.argtypes = [ctypes.c_longlong, ctypes.c_longlong, ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p]
    library.check.restype = ctypes.c_longlong
    return library


def wrong(pool, n, chunk, jobs=3, busy=0):
    return pool.check(n, chunk, jobs, busy, (ctypes.c_int * max(n, 1))())


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 40])
@pytest.mark.parametrize(("n", "chunk"), [(0, 1), (1, 1), (7, 1), (7, 3), (100, 7), (1000, 1), (64, 64), (64, 100)])
def test_each_element_is_visited_once(pool, threads, n, chunk):
    pool.hg_pool_resize(threads)
    assert wrong(pool, n, chunk, jobs=20) == 0
    assert wrong(pool, n, chunk, busy=2000) == 0


@pytest.mark.parametrize(("n", "chunk"), [(0, 1), (7, 3), (1000, 1)])
def test_one_thread_takes_all_chunks_in_a_call(pool, n, chunk):
    """Convolutions copy a band once, however many chunks share it."""
    pool.hg_pool_resize(1)
    assert pool.calls(ctypes.c_longlong(n), ctypes.c_longlong(chunk), (ctypes.c_int * max(n, 1))()) == 1


def test_workers_start_for_long_jobs_alone(build):
    fresh = ctypes.CDLL(str(build("-DFRESH")))
    fresh.check.argtypes = [ctypes.c_longlong, ctypes.c_longlong, ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p]
    fresh.hg_pool_resize(3)
    assert fresh.check(2, 1, 1, 0, (ctypes.c_int * 2)()) == 0
    assert fresh.hg_pool_workers() == 0
    assert fresh.check(1000, 10, 1, 10_000, (ctypes.c_int * 1000)()) == 0
    assert fresh.hg_pool_workers() == 2


def test_fewer_threads_after_more(pool):
    for threads in (7, 2, 1, 5, 3):
        pool.hg_pool_resize(threads)
        assert wrong(pool, 500, 3, busy=500) == 0


def test_several_callers(pool):
    pool.hg_pool_resize(3)
    found = []

    def call():
        found.extend(wrong(pool, 300, 2, jobs=5, busy=200) for _ in range(20))

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == [0] * 80


def test_jobs_after_every_worker_fell_asleep(pool):
    pool.hg_pool_resize(3)
    for _ in range(5):
        assert wrong(pool, 300, 2, busy=1000) == 0
        time.sleep(0.005)


def test_a_forked_child_and_its_parent(pool):
    """The child is forked while workers are at work for another thread."""
    pool.hg_pool_resize(3)
    done = threading.Event()

    def call():
        while not done.is_set():
            wrong(pool, 300, 2, busy=500)

    caller = threading.Thread(target=call)
    caller.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # a child that hangs ends
                os._exit(int(any(wrong(pool, 300, 2, busy=500) for _ in range(5))))
            assert os.waitpid(child, 0)[1] == 0
            assert wrong(pool, 300, 2, busy=500) == 0
    finally:
        done.set()
        caller.join()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system cannot be told")
def test_all_threads_on_one_processor(pool):
    pool.hg_pool_resize(3)
    wrong(pool, 300, 2, busy=1000)  # workers are there
    tasks = [int(t) for t in os.listdir("/proc/self/task")]
    before = os.sched_getaffinity(0)
    one = {min(before)}

    def place(processors):
        for task in tasks:
            with contextlib.suppress(ProcessLookupError):  # a thread of another test has ended meanwhile
                os.sched_setaffinity(task, processors)

    try:
        place(one)
        for _ in range(5):
            assert wrong(pool, 300, 2, busy=1000) == 0
    finally:
        place(before)


def test_beside_busy_processes(pool):
    pool.hg_pool_resize(3)
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        for _ in range(20):
            assert wrong(pool, 300, 2, busy=1000) == 0
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_workers_take_no_signals(pool):
    """They are the interpreter's: Ctrl-C would otherwise be handled, or not, wherever it arrives."""
    pool.hg_pool_resize(3)
    before = set(os.listdir("/proc/self/task"))
    wrong(pool, 300, 2, busy=3000)
    workers = [t for t in os.listdir("/proc/self/task") if _name(t) == "hybridgpu"]
    assert len(workers) >= 2, before
    for task in workers:
        with open(f"/proc/self/task/{task}/status") as f:
            blocked = next(int(line.split()[1], 16) for line in f if line.startswith("SigBlk"))
        assert blocked >> (signal.SIGINT - 1) & 1
        assert blocked >> (signal.SIGTERM - 1) & 1


def _name(task):
    with open(f"/proc/self/task/{task}/comm") as f:
        return f.read().strip()


def test_thread_sanitizer_finds_no_race(build, tmp_path):
    main = tmp_path / "main.cpp"
    main.write_text(
        '#include "checker.cpp"\n'
        "#include <cstdio>\n"
        "static int counts[2][400];\n"
        "static void* call(void* p) { long wrong = 0; for (int k = 0; k < 30; ++k) {\n"
        "  for (int& c : *(int (*)[400])p) c = 0; wrong += check(400, 3, 2, 300, (int*)p); }\n"
        "  return (void*)wrong; }\n"
        "int main() { hg_pool_resize(4); pthread_t other; pthread_create(&other, 0, call, counts[0]);\n"
        "  void* theirs; long mine = (long)call(counts[1]); pthread_join(other, &theirs);\n"
        "  hg_pool_resize(2); mine += (long)call(counts[1]);\n"
        "  return mine || theirs; }\n"
    )
    library = build()  # (the folder of its source)
    program = tmp_path / "main"
    command = ["g++", "-std=c++17", "-O1", "-g", "-fsanitize=thread", f"-I{kernels_folder()}", f"-I{library.parent}"]
    done = subprocess.run([*command, str(main), "-o", str(program), "-lpthread"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip("the compiler has no ThreadSanitizer")
    ran = subprocess.run([str(program)], capture_output=True, text=True, timeout=300)
    if "unexpected memory mapping" in ran.stderr:
        pytest.skip("ThreadSanitizer does not run with this system's memory layout")
    assert ran.returncode == 0, ran.stderr
