# SPDX-License-Identifier: Apache-2.0
"""Compilers that start before their text is known, and what else the toolchain finds out about them."""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import hybridgpu as mx
from hybridgpu.backends.base import NotBuiltError, this_thread
from hybridgpu.backends.cpu import compile
from hybridgpu.backends.cpu import prestarted_compiler as module_of_waiting
from hybridgpu.backends.cpu import toolchain as module
from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.backends.cpu.compile import CompileError
from hybridgpu.backends.cpu.prestarted_compiler import PrestartedCompiler
from hybridgpu.backends.cpu.toolchain import FLAGS, Toolchain
from hybridgpu.cache.disk_cache import Store
from hybridgpu.compiler.program import Unit
from hybridgpu.gluon import nn
from hybridgpu.runtime import compilation

ONE = '#include "cpu.h"\nHG_KERNEL f(int* y) { *y = 7; }\nHG_EXPORT int run0() { int y = 0; f(&y); return y; }\n'
TWO = [
    '#include "cpu.h"\nHG_KERNEL f(int* y) { *y = 8; }\n',
    '#include "cpu.h"\nHG_KERNEL f(int* y);\nHG_EXPORT int run0() { int y; f(&y); return y + 1; }\n',
]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache")


@pytest.fixture
def toolchain(compiler, store, monkeypatch):
    """The machine's, if it can wait."""
    module._find.cache_clear()
    found = module.find_toolchain(store)
    module._find.cache_clear()
    if found is None or not found.waits:
        pytest.skip("this compiler does not read its standard input for an include")
    monkeypatch.setattr(compile, "cpu_count", lambda: 2)
    return found


def run(toolchain, texts, store, tmp_path, numeric="strict"):
    with toolchain.start(numeric) as waiting:
        assert [type(w) for w in waiting] == [PrestartedCompiler] * 2
        code = toolchain.compile([Unit(entries=t) for t in texts], numeric, store, waiting).library
    assert not any(w.object.parent.exists() for w in waiting)
    file = tmp_path / f"{time.monotonic_ns()}.so"
    file.write_bytes(code)
    return ctypes.CDLL(str(file)).run0()


@pytest.mark.parametrize("numeric", ["strict", "fast"])
@pytest.mark.parametrize(("texts", "result"), [([ONE], 7), (TWO, 9)], ids=["one unit", "two"])
def test_the_text_may_come_later(toolchain, store, tmp_path, texts, result, numeric):
    assert run(toolchain, texts, store, tmp_path, numeric) == result


def test_the_code_is_that_of_a_compiler_that_had_its_text_at_once(toolchain, tmp_path, store):
    """… of an entry with a kernel that it alone calls, too."""

    def instructions(file):
        tool = shutil.which("objdump")
        if tool is None:
            pytest.skip("no objdump")
        said = subprocess.run([tool, "-d", str(file)], capture_output=True, text=True, check=True).stdout
        return said.partition("Disassembly")[2]

    for text in (ONE, TWO[0].replace("HG_KERNEL", "HG_EXPORT void")):
        file = tmp_path / "plain.so"
        file.write_bytes(toolchain.compile([Unit(entries=text)], "strict", store).library)
        with toolchain.start("strict") as waiting:
            other = tmp_path / "waited.so"
            other.write_bytes(toolchain.compile([Unit(entries=text)], "strict", store, waiting).library)
        assert instructions(file) == instructions(other) != ""


def test_what_a_compiler_refuses_is_told(toolchain, store):
    with toolchain.start("strict") as waiting, pytest.raises(CompileError, match="no_such_name"):
        toolchain.compile([Unit(entries=ONE + "int x = no_such_name;\n")], "strict", store, waiting)
    assert not any(w.object.parent.exists() for w in waiting)


EXITING = 0x4  #: of the flags in /proc/PID/stat


def group(pid):
    """Processes of a group that go on: one that was killed has an end to come to, for which it needs a processor."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ending = int(fields[6]) & EXITING or int(fields[28]) >> signal.SIGKILL - 1 & 1
        if int(fields[2]) == pid and fields[0] != "Z" and not ending:
            found.append(entry.parent.name)
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_nothing_is_left_of_those_that_were_not_wanted(toolchain):
    with toolchain.start("strict") as waiting:
        left = [(w._process.pid, w.object.parent) for w in waiting]
        assert all(group(pid) and folder.is_dir() for pid, folder in left)
    assert not any(group(pid) or folder.exists() for pid, folder in left)
    assert [w._process.returncode for w in waiting] == [-signal.SIGKILL] * 2


def test_ctrl_c_while_it_compiles_reaches_the_caller(toolchain):
    with pytest.raises(KeyboardInterrupt), toolchain.start("strict") as waiting:
        waiting[0]._process.stdin.close()  # as ``finish`` has by the time that it waits
        raise KeyboardInterrupt
    assert all(w._process.returncode is not None and not w.object.parent.exists() for w in waiting)


def test_ctrl_c_waits_for_the_compilers_beside():
    """They would write into a folder that is gone."""
    begun, met, done = threading.Event(), threading.Event(), []

    def interrupted():
        met.set()
        begun.wait(60)
        raise KeyboardInterrupt

    def beside():
        begun.set()
        met.wait(60)  # or it would take the other's job, too, while that has no processor
        time.sleep(0.2)
        done.append(1)

    def job():
        (interrupted if threading.current_thread() is threading.main_thread() else beside)()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile, "cpu_count", lambda: 2)
        with pytest.raises(KeyboardInterrupt):
            compile._side_by_side([job] * 2)
    assert done == [1]


ENDS = """
import sys, threading, time
from hybridgpu.backends.cpu.toolchain import find_toolchain
from hybridgpu.cache.disk_cache import default_store

toolchain, ready = find_toolchain(default_store()), threading.Event()

def compiles():
    with toolchain.start("strict") as waiting:
        print(*[text for w in waiting for text in (w._process.pid, w.object.parent)], flush=True)
        ready.set()
        time.sleep(600)

threading.Thread(target=compiles, daemon=True).start()
ready.wait()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_nothing_is_left_of_a_process_that_ends_while_a_thread_compiles(toolchain):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run([sys.executable, "-c", ENDS], env=env, capture_output=True, text=True, timeout=120, check=True)
    pids, folders = run.stdout.split()[::2], run.stdout.split()[1::2]
    assert len(pids) == 2 and not any(group(int(pid)) for pid in pids) and not any(Path(f).exists() for f in folders)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
def test_a_child_that_lives_on_keeps_no_compiler_waiting(toolchain, store, tmp_path):
    """It has the pipe to the compiler, too, which ends when nobody can write to it any more."""
    with toolchain.start("strict") as (waiting, _):
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.close(write)
            os.read(read, 1)  # until the parent is done
            os._exit(0)
        os.close(read)
        try:
            waiting._process.stdin.write(ONE)
            waiting._process.stdin.close()
            assert waiting._process.wait(60) == 0 and waiting.object.stat().st_size
        finally:
            os.close(write)
            os.waitpid(child, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
def test_a_child_that_lives_on_keeps_no_compiler_reading():
    """The same of one that has its text at once, but has not read it when the child comes."""
    slow = [sys.executable, "-c", "import sys, time; time.sleep(1); print(len(sys.stdin.read()))"]
    said = []
    thread = threading.Thread(target=lambda: said.append(compile._run(slow, "x" * 200_000).stdout))
    thread.start()  # which writes until the pipe is full
    time.sleep(0.3)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(write)
        os.read(read, 1)  # until the parent is done
        os._exit(0)
    os.close(read)
    try:
        thread.join(30)
        assert said == ["200000\n"]
    finally:
        os.close(write)
        os.waitpid(child, 0)
        thread.join()


def test_one_processor_has_other_things_to_do(toolchain, monkeypatch):
    monkeypatch.setattr(compile, "cpu_count", lambda: 1)
    with toolchain.start("strict") as waiting:
        assert not waiting


def test_in_the_background_another_thread_has_a_processor(toolchain, monkeypatch):
    monkeypatch.setattr(this_thread, "background", True)
    with toolchain.start("strict") as waiting:
        assert len(waiting) == 1


def test_where_no_process_can_be_started_nothing_waits(store, monkeypatch):
    monkeypatch.setattr(compile, "cpu_count", lambda: 2)
    with Toolchain(("/no/such/compiler",), "", FLAGS, True).start("strict") as waiting:
        assert not waiting


def test_where_no_other_process_can_be_started_one_waits(toolchain, store, tmp_path, monkeypatch):
    real, started = module_of_waiting.start, []

    def start(*args, **options):
        if started:
            raise OSError("no more processes")
        started.append(real(*args, **options))
        return started[0]

    monkeypatch.setattr(module_of_waiting, "start", start)
    with toolchain.start("strict") as waiting:
        assert [w._process for w in waiting] == started
        code = toolchain.compile([Unit(entries=t) for t in TWO], "strict", store, waiting).library
    (tmp_path / "made.so").write_bytes(code)
    assert ctypes.CDLL(str(tmp_path / "made.so")).run0() == 9


# -- when


class Counting:
    def __init__(self, monkeypatch):
        self.started, self.taken = 0, 0
        self.compilers: list[int] = []
        start, compile_ = Toolchain.start, Toolchain.compile

        @contextmanager
        def counted(toolchain, numeric, units):
            self.started += 1
            with start(toolchain, numeric, units) as waiting:
                self.compilers.append(len(waiting))
                yield waiting

        def compiled(toolchain, source, numeric, store, waiting=()):
            self.taken += bool(waiting)
            return compile_(toolchain, source, numeric, store, waiting)

        monkeypatch.setattr(Toolchain, "start", counted)
        monkeypatch.setattr(Toolchain, "compile", compiled)


def test_a_program_finds_a_compiler_waiting_after_one_that_had_to_be_compiled(toolchain, monkeypatch):
    backend = cpu_backend()
    if not backend.toolchain.waits:
        pytest.skip("the compiler of this process does not wait")
    monkeypatch.setattr(backend, "_units_last", 2)
    made, found = Counting(monkeypatch), []
    new = random.Random().random()  # no cache has its kernels
    for factor in (new, new, new, new + 1, new + 2):
        monkeypatch.setattr(compilation, "_memory", {})
        monkeypatch.setattr(compilation, "_stored", lambda data: None)  # each is planned
        net = nn.HybridLambda(lambda F, x, factor=factor: F.tanh(x * factor))
        net.hybridize()
        net(mx.nd.ones((1, 5)))
        found.append((made.started, made.taken))
    # for the second in vain; not for the third; the fourth is not expected to be compiled
    assert found == [(1, 1), (2, 1), (2, 1), (2, 1), (3, 2)]


def test_as_many_compilers_wait_as_the_program_before_had_units(toolchain, monkeypatch):
    backend = cpu_backend()
    if not backend.toolchain.waits:
        pytest.skip("the compiler of this process does not wait")
    monkeypatch.setattr(backend, "_units_last", 2)
    made, new = Counting(monkeypatch), random.Random().random()

    def one(F, x, factor):
        return F.tanh(x * factor)

    def two(F, x, factor):
        return F.softmax(F.softmax(x * factor, axis=0) * factor, axis=1)

    for k, function in enumerate([one, one, two, two, one]):
        net = nn.HybridLambda(lambda F, x, k=k, function=function: function(F, x, new + k))
        net.hybridize()
        net(mx.nd.ones((3, 5)))
    assert made.compilers == [2, 1, 1, 2, 2]


def test_a_prelude_says_nothing_of_the_next_program(toolchain, monkeypatch):
    backend = cpu_backend()
    if not backend.toolchain.waits:
        pytest.skip("the compiler of this process does not wait")
    monkeypatch.setattr(backend, "_units_last", 2)
    made, new = Counting(monkeypatch), random.Random().random()
    for k in range(3):  # BatchNorm's factors are computed once, by kernels that the first one compiles
        net = nn.HybridSequential()
        net.add(nn.BatchNorm(in_channels=5), nn.HybridLambda(lambda F, x, factor=new + k: F.tanh(x * factor)))
        net.initialize()
        net.hybridize()
        net(mx.nd.ones((2, 5)))
        assert net._cached_op.last_call[-1].prelude is not None
    assert (made.started, made.taken) == (3, 3)


# -- what is found out about a compiler


@pytest.mark.parametrize(
    ("command", "said"),
    [("import sys; print(sys.stdin.read())", "a text\n"), ("print(3)", "3\n"), ("raise SystemExit(2)", "")],
    ids=["reads", "reads nothing", "fails"],
)
def test_something_else_is_done_while_a_compiler_works(command, said):
    done = []
    run = compile._run([sys.executable, "-c", command], "a text", lambda: time.sleep(0.2) or done.append(1))
    assert (run.stdout, done) == (said, [1])
    assert run.returncode == (2 if "Exit" in command else 0)


def test_what_fails_while_a_compiler_works_ends_it():
    with pytest.raises(ZeroDivisionError):
        compile._run([sys.executable, "-c", "import time; time.sleep(600)"], "", lambda: 1 / 0)


def test_what_plans_graphs_is_imported_while_a_new_compiler_is_asked(toolchain, store, monkeypatch):
    imported = []
    monkeypatch.setattr(compile, "_import_planning", lambda: imported.append(1))
    for _ in range(2):  # then it is known
        module._find(((*toolchain.command, "-O1"),), store)
        module._find.cache_clear()
    assert imported == [1]


def script(folder, text):
    """A compiler that is a shell script; ``$real`` is the machine's."""
    real = next(path for name in ("c++", "g++", "clang++") if (path := shutil.which(name)))
    file = folder / "compiler"
    file.write_text(f'#!/bin/sh\nreal={real}\n{text}\nexec "$real" "$@"\n')
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


NO_INCLUDE = 'case "$*" in *read_stdin.h*) echo "no such include" >&2; exit 1;; esac'
NO_NAME = 'case "$*" in *-print-prog-name*) exit 1;; esac'
EMPTY = 'case "$*" in *read_stdin.h*) exec "$real" "$@" < /dev/null;; esac'


@pytest.mark.skipif(sys.platform == "win32", reason="no shell scripts")
@pytest.mark.parametrize(
    ("text", "waits", "direct"),
    [("", True, True), (NO_INCLUDE, False, True), (EMPTY, False, True), (NO_NAME, True, False)],
    ids=["as it is", "refuses", "reads nothing", "names no linker"],
)
def test_compilers_that_cannot_do_all(toolchain, tmp_path, store, text, waits, direct):
    if not toolchain.linker:
        pytest.skip("nothing to compare with")
    found = module._find(((script(tmp_path, text),),), store)
    module._find.cache_clear()
    assert (found.waits, bool(found.linker), found.flags) == (waits, direct, toolchain.flags)
    with found.start("strict") as waiting:
        assert bool(waiting) is waits
        code = found.compile([Unit(entries=ONE)], "strict", store, waiting).library
    file = tmp_path / "made.so"
    file.write_bytes(code)
    assert ctypes.CDLL(str(file)).run0() == 7


@pytest.mark.skipif(sys.platform == "win32", reason="no shell scripts")
def test_units_are_kept_whole_where_the_linker_takes_no_parts(toolchain, tmp_path, store):
    """What it refuses it is never told, be it started by the compiler or by name."""
    linker = tmp_path / "ld"
    linker.write_text(
        f'#!/bin/sh\ncase "$*" in *gc-sections*) echo "no such option" >&2; exit 1;; esac\nexec {toolchain.linker} "$@"\n'
    )
    linker.chmod(0o700)
    found = module._find(((script(tmp_path, f'set -- -B{tmp_path} "$@"'),),), store)
    module._find.cache_clear()
    assert toolchain.part_options and not found.part_options and toolchain.key != found.key
    kernels = [(f"f{n}", f'extern "C" int f{n}() {{ return {n}; }}\n') for n in range(4)]
    entry = 'extern "C" int f1(); extern "C" int f2(); HG_EXPORT int run0() { return 10 * f1() + f2(); }\n'
    for order in ([0, 1, 2, 3], [0, 2, 1, 3]):
        units = [Unit(kernels=[kernels[k] for k in half]) for half in (order[:2], order[2:])]
        file = tmp_path / f"{order[1]}.so"
        units.append(Unit('#include "cpu.h"\n', entries=entry))
        file.write_bytes(found.compile(units, "strict", store).library)
        assert ctypes.CDLL(str(file)).run0() == 12


def test_arguments_may_be_for_the_linker_too(toolchain, store):
    found = module._find(((*toolchain.command, "-O1"),), store)
    module._find.cache_clear()
    assert found.linker == "" and found.waits


@pytest.mark.parametrize("linker", ["/no/such/linker", "/bin/false"])
def test_a_linker_that_has_gone_is_done_without(toolchain, store, tmp_path, linker):
    if not os.path.exists(linker) and linker == "/bin/false":
        pytest.skip("no such command")
    other = Toolchain(toolchain.command, toolchain.identity, toolchain.flags, True, linker)
    assert run(other, [ONE], store, tmp_path) == 7


@pytest.mark.parametrize("name", ["memcpy", "memmove", "memset"])
def test_the_c_library_is_there_unlinked(toolchain, store, tmp_path, monkeypatch, name):
    """Copies and fills of kernels are what compilers make of loops: no search in libraries for them."""
    if not toolchain.linker:
        pytest.skip("links are made by the compiler")
    commands, real = [], compile._run
    monkeypatch.setattr(compile, "_run", lambda command, text: commands.append(command) or real(command, text))
    second = "9" if name == "memset" else "x"
    text = f"""#include "cpu.h"
HG_KERNEL f(char* y, const char* x, unsigned long n) {{ __builtin_{name}(y, {second}, n); }}
HG_EXPORT int run0() {{ char y[64] = {{}}; char x[64] = {{9, 9}}; volatile unsigned long n = 2; f(y, x, n); return y[1]; }}
"""
    assert run(toolchain, [text], store, tmp_path) == 9
    assert len(commands) == 1 and commands[0][0] == toolchain.linker


def test_what_is_known_of_a_compiler_comes_back(toolchain, store, monkeypatch):
    monkeypatch.setattr(compile, "probe", lambda *command: pytest.fail("asked again"))
    assert module.find_toolchain(store) == toolchain
    module._find.cache_clear()


@pytest.mark.skipif(sys.platform == "win32", reason="no shell scripts")
@pytest.mark.parametrize("change", ["content", "another file"])
def test_a_changed_compiler_is_asked_again(toolchain, tmp_path, store, change):
    """Of the same size and time as before: it takes a flag less now."""
    file = Path(script(tmp_path, 'case "$*" in *-ivopt_*) exit 1;; esac'))
    before, s = module._find(((str(file),),), store), file.stat()
    module._find.cache_clear()
    text = file.read_text().replace("ivopt_", "ivopts")
    if change == "another file":
        file.rename(tmp_path / "old")
        file.write_text(text)
        file.chmod(0o700)
    else:
        file.write_text(text)
    os.utime(file, ns=(s.st_atime_ns, s.st_mtime_ns))
    after = module._find(((str(file),),), store)
    module._find.cache_clear()
    assert before.flags == FLAGS and set(FLAGS) - set(after.flags) == {"-fno-ivopts"}


@pytest.mark.skipif(sys.platform == "win32", reason="no shell scripts")
def test_a_script_that_starts_another_compiler_by_now(toolchain, tmp_path, store):
    """Its file is the same, what it takes is not: this process cannot compile, the next one asks it again."""
    other = tmp_path / "other"
    file = script(tmp_path, f'if [ -e {other} ]; then case "$*" in *-fno-ivopts*) exit 1;; esac; fi')
    before = module._find(((file,),), store)
    assert before.compile([Unit(entries=ONE)], "strict", store)
    other.touch()
    for _ in range(2):
        with pytest.raises(NotBuiltError, match="takes other flags than when it was found"):
            before.compile([Unit(entries=ONE)], "strict", store)
    module._find.cache_clear()
    after = module._find(((file,),), store)
    module._find.cache_clear()
    assert before.flags == FLAGS and set(FLAGS) - set(after.flags) == {"-fno-ivopts"}
    assert after.compile([Unit(entries=ONE)], "strict", store)
    with pytest.raises(CompileError):
        toolchain.compile([Unit(entries="no C++")], "strict", store)


def test_a_container_that_is_started_again_asks_no_compiler(toolchain, store, monkeypatch):
    """Its file system has another number each time."""
    real = os.stat

    def elsewhere(*args, **options):
        found = real(*args, **options)
        known = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
        return SimpleNamespace(**known | {"st_dev": found.st_dev + 1})

    monkeypatch.setattr(os, "stat", elsewhere)
    monkeypatch.setattr(compile, "probe", lambda *command: pytest.fail("asked again"))
    module._find.cache_clear()
    assert module.find_toolchain(store) == toolchain
    module._find.cache_clear()


NOTED = ["/usr/bin/g++", list(FLAGS), True, "/usr/bin/ld"]


@pytest.mark.parametrize(
    "entry",
    [
        None,
        3,
        [],
        list(FLAGS),
        {},
        NOTED[:3],
        [*NOTED, 1],
        [None, *NOTED[1:]],
        ["", [], True, ""],
        ["", NOTED[1], 1, ""],
        ["", NOTED[1], True, None],
    ]
    + [["", [*FLAGS, "-fno-such"], True, ""], ["", ["-shared"], True, ""]],
    ids=repr,
)
def test_entries_that_say_something_else_are_not_believed(entry):
    assert module._noted(json.loads(json.dumps(entry))) is None
    assert module._noted(json.loads(json.dumps(NOTED))) == ("/usr/bin/g++", FLAGS, True, "/usr/bin/ld")
