# SPDX-License-Identifier: Apache-2.0
"""Settings of every test: a cache folder of its own, graphs verified after every pass, the same numbers in every run."""

from __future__ import annotations

import functools
import gc
import os
import random
import re
import subprocess
import tempfile
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path

import hypothesis
import numpy as np
import pytest

os.environ.setdefault("HYBRIDGPU_VERIFY", "1")
if "HYBRIDGPU_CACHE_DIR" not in os.environ:
    # shared by the workers of one run: what one compiles, the others load
    os.environ["HYBRIDGPU_CACHE_DIR"] = os.path.join(tempfile.gettempdir(), f"hybridgpu-tests-{os.getuid()}")

# no test depends on how busy the machine is
untimed = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
# the same examples in every run; pytest --hypothesis-profile=search draws others
hypothesis.settings.register_profile("same", derandomize=True, database=None, print_blob=True, **untimed)
hypothesis.settings.register_profile("search", print_blob=True, **untimed)
hypothesis.settings.load_profile("same")


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="store the generated texts that tests compare")
    parser.addoption("--fuzz", type=int, default=2000, help="number of mutated files a format")
    parser.addoption(
        "--as-shipped", action="store_true", help="C++ is compiled everywhere with the flags that users get"
    )
    parser.addoption("--second", action="store_true", help="the second job of tests/run.sh")
    parser.addoption("--mutants", type=int, default=5, help="number of mutants a template or header (0: all)")


#: what the second job runs, and what neither does
_SECOND = "(architectures or interpreted or optimised or remaining) and not (exhaustive or gpu or mutation)"


def pytest_configure(config):
    if config.option.second:
        config.option.markexpr = _SECOND
    _check_mxnet_python()


def _check_mxnet_python():
    """One error for a name that is no interpreter, in place of one for each test that would start it."""
    name = os.environ.get("HYBRIDGPU_MXNET_PYTHON")
    if not name:
        return
    try:
        answer = subprocess.run([name, "-c", "print(6 * 7)"], capture_output=True, text=True, check=False, timeout=60)
        problem = "" if answer.stdout.strip() == "42" else answer.stderr.strip()[-200:] or "it does not run Python"
    except (OSError, subprocess.TimeoutExpired) as e:
        problem = getattr(e, "strerror", None) or str(e)
    if problem:
        raise pytest.UsageError(
            f"HYBRIDGPU_MXNET_PYTHON={name} is no Python interpreter ({problem}); name one that has MXNet 1.9.1, or unset it"
        )


#: files of tests that take half a minute each: started first, since a worker that has one left in the end works alone
_LONG = (
    "test_nvrtc.py",
    "test_bench.py",
    "test_gpu_check.py",
    "test_gpu_steps.py",
    "test_gpu_rehearsal.py",
    "test_exchange.py",
)


_HERE = Path(__file__).parent
#: folders whose subject is the machine code of generated C++ as well: the second job optimises it as for users
_CODE = {_HERE / name for name in ("compiler", "docs")}
#: folders whose subject stands above the compiler: NumPy computes their programs in the first job
_FRONT_END = {_HERE / name for name in ("gluon", "np", "ops", "symbol", "tracing")}
_EVERY = 4  #: row of a long table that the first job takes
_LONGEST = 32  #: rows of a table, or tests of the front end, of which the first job takes (or compiles) half as many


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Long tests first; the others keep their order. Those of the second job are marked, before others are left out."""
    known = [(item, _Kind(item)) for item in items]
    for item, kind in known:
        if kind.folder in _CODE and "no_host_code" not in kind.marks:
            item.add_marker("optimised")
            kind.marks.add("optimised")
    if config.args_source is config.ArgsSource.TESTPATHS and not config.option.keyword:  # nobody named a file or test
        for item in [*_rest(_rows_of_code(known)), *(item for item, kind in known if "long_test" in kind.marks)]:
            item.add_marker("remaining")
        for item in _rest([[item for item, kind in known if kind.is_front_end]]):
            item.add_marker("interpreted")
    items.sort(key=lambda item: item.path.name not in _LONG)


class _Kind:
    """What of a test decides about its jobs; there are tens of thousands, so each is looked at once."""

    def __init__(self, item):
        self.folder, self.fixtures = item.path.parent, set(item.fixturenames)
        self.marks = {mark.name for mark in item.iter_markers()}
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        #: whether it executes kernels as CUDA: by its fixtures, or by a parameter for which it asks for them
        self.on_gpu = "cuda_driver" in self.fixtures or any(
            p in ("gpu", "emulated GPU") for p in parameters if type(p) is str
        )

    @property
    def is_front_end(self):
        """Whether it stands above the compiler and does not ask for one."""
        return (
            self.folder in _FRONT_END
            and not {"compiler", "no_compiler"} & self.fixtures
            and not self.on_gpu
            and not {"as_shipped", "optimised"} & self.marks
        )


_WHOLE = {_HERE / "docs" / "test_docs.py"}  #: of these tables the first job takes every row
_NOT_DAILY = {"architectures", "exhaustive", "gpu", "mutation"}  #: what is left to others by itself
_TABLES_OF_CODE = {"no_host_code", "optimised", "long_table"}


def _rows_of_code(known):
    """Long tables whose rows are executed as CUDA or are about code, and tables of any length marked ``long_table``."""
    tables = {}
    for item, kind in known:
        chosen = kind.on_gpu or not _TABLES_OF_CODE.isdisjoint(kind.marks)
        if chosen and item.path not in _WHOLE and _NOT_DAILY.isdisjoint(kind.marks):
            tables.setdefault((item.path, item.function.__name__), []).append(item)
    return [rows for rows in tables.values() if len(rows) >= 2 * _EVERY or rows[0].get_closest_marker("long_table")]


def _rest(tables):
    """Rows of tables without those that the first job takes."""
    for rows in tables:
        every = 2 * _EVERY if len(rows) >= _LONGEST else _EVERY
        # not always the same of two that alternate
        yield from (row for k, row in enumerate(rows) if (k + k // every) % every)


def pytest_collection_finish():
    """Tests and their tables stay to the end: the garbage collector need not look through them again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 20)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Nor at what a file leaves behind for good, such as lowered operators: tests that collect garbage have only their own."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Random numbers do not depend on what ran before, nor on the process; fixtures of any scope come later."""
    from hybridgpu.core import rng

    random.seed(0)
    np.random.seed(0)
    rng.seed(0)


@pytest.fixture
def update_golden(request):
    """True if stored texts are to be replaced."""
    return request.config.getoption("--update-golden")


@pytest.fixture
def compiler():
    """Skips where the host has no C++ compiler."""
    from hybridgpu.backends.cpu.backend import cpu_backend

    if cpu_backend() is None:
        pytest.skip("no C++ compiler")


@pytest.fixture
def mixed_precision_ends(monkeypatch):
    """What ``amp.init`` does ends with the test."""
    from hybridgpu import nd, sym
    from hybridgpu.contrib.amp import amp
    from hybridgpu.ndarray.apply import forget_graphs
    from hybridgpu.ops.precision import use

    for name in ("_amp_initialized", "_amp_loss_scale_initialized", "_loss_scaler"):
        monkeypatch.setattr(amp, name, getattr(amp, name))
    for name in amp.list_loss_output_functions("float16"):
        for place in (nd, sym):
            monkeypatch.setattr(place, name, getattr(place, name))
    yield
    use(None)
    forget_graphs()


@pytest.fixture
def no_compiler(monkeypatch):
    """A host without a C++ compiler, where NumPy runs programs."""
    monkeypatch.setattr("hybridgpu.backends.devices.HostDevice.backend", lambda self: None)
    monkeypatch.setattr("hybridgpu.runtime.compilation._warned", True)


_WISHES = re.compile(r"^#pragma GCC optimize\(.*\)$", re.M)  #: of texts, for code that is optimised


@functools.cache
def _quick(shipped):
    """A toolchain that takes a third of the time: it optimises nothing, not what a text wishes either, and up to three
    units are compiled as the one that they are as well, of which no kernel is kept. Nor does it start before there is a
    text: the other processor is busy with other tests."""
    from hybridgpu.backends.cpu.toolchain import Toolchain
    from hybridgpu.compiler.program import Unit

    class Quick(Toolchain):
        def compile(self, units, numeric, store, waiting=()):
            units = [Unit(_WISHES.sub("", u.head), u.kernels, u.entries, u.entry_count) for u in units]
            if len(units) <= 3:
                kernels = [kernel for u in units for kernel in (("", u.head), *u.kernels)]
                units = [Unit("", kernels, "".join(u.entries for u in units), entry_count=2)]
            return super().compile(units, numeric, store, waiting)

    changed = {"flags": tuple("-O0" if f == "-O3" else f for f in shipped.flags), "waits": False}
    return Quick(**{f.name: getattr(shipped, f.name) for f in fields(shipped)} | changed)


@pytest.fixture
def _no_host_code(monkeypatch):
    """A test that says so of itself compiles no C++ for the host: the second job need not repeat it with other flags."""

    def refuse(*arguments):
        pytest.fail("a test marked no_host_code compiles C++ for the host")

    monkeypatch.setattr("hybridgpu.backends.cpu.toolchain.Toolchain.compile", refuse)
    monkeypatch.setattr("hybridgpu.backends.cpu.toolchain.Toolchain.start", lambda *arguments: nullcontext(()))


@pytest.fixture(autouse=True)
def _surroundings(request, monkeypatch):
    """What holds in every test. One fixture: pytest takes as long for each as some tests do.

    Many tests change what the compiler chooses: none finds a program of another test. Kernels are shared. Automatic names
    start from 0.
    """
    from hybridgpu.attribute import AttrScope
    from hybridgpu.name import NameManager
    from hybridgpu.runtime import compilation, recorded_program

    monkeypatch.setattr(compilation, "_memory", {})
    monkeypatch.setattr(recorded_program, "_memory", {})
    monkeypatch.setattr(
        compilation, "VERSION", f"{compilation.VERSION} {request.path.name} {request.function.__name__}"
    )
    _choose_compiler(request, monkeypatch)
    AttrScope._subgraph_names.clear()
    with NameManager():
        yield


def _choose_compiler(request, monkeypatch):
    """NumPy computes the programs of tests above the compiler in the first job, but of every eighth; the second compiles.

    The C++ compiler does not optimise, but where a test is marked ``as_shipped``, ``optimised`` in the second job, and
    everywhere with ``pytest --as-shipped``. The flags are part of every key, so that neither code is taken for the other.
    """
    from hybridgpu.backends.cpu import backend as module
    from hybridgpu.backends.cpu.toolchain import find_toolchain

    option, marked = request.config.option, request.node.get_closest_marker
    if marked("interpreted") and not (option.second or option.as_shipped):
        request.getfixturevalue("no_compiler")
    if marked("no_host_code"):
        request.getfixturevalue("_no_host_code")
        return

    def find(store):
        found = find_toolchain(store)
        return found and _quick(found)

    shipped = option.as_shipped or marked("as_shipped") or (option.second and marked("optimised"))
    backend, find = module.cpu_backend(), find_toolchain if shipped else find
    monkeypatch.setattr(module, "find_toolchain", find)  # for tests with a store of their own
    if backend is not None:
        monkeypatch.setattr(backend, "toolchain", find(backend.store))


@pytest.fixture
def cuda_driver():
    """The emulated CUDA driver of this process (it keeps what it has compiled), behind mx.gpu(0) for one test."""
    from emulated import install, uninstall

    driver = install()
    driver.forget()
    yield driver
    uninstall()
