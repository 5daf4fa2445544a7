# SPDX-License-Identifier: Apache-2.0
"""The calls into CUDA's driver library, against one that remembers what it was asked (fake_libcuda.cpp)."""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_on_cpu.toolchain import compiler as cxx
from cuda_on_cpu.toolchain import nvidia_includes

from hybridgpu.backends.cuda.driver import Launch, Memory, NoGraphError, NotCapturedError
from hybridgpu.backends.cuda.graphs import Captures, CudaGraph, GraphFunctions, KernelNode
from hybridgpu.backends.device_errors import DeviceError
from hybridgpu.base import MXNetError

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The path of the library, whose signatures the compiler compares with CUDA's header where there is one."""
    out = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    includes = [f"-I{folder}" for folder in nvidia_includes()]
    flags = ["-std=c++17", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([cxx(), *flags, *includes, str(HERE / "fake_libcuda.cpp"), "-o", str(out)], check=True)
    return str(out)


class Fake:
    """What the library was asked, and what it is to refuse."""

    def __init__(self, path):
        self._library = ctypes.CDLL(path)
        for function in ("fake_log", "fake_alive", "fake_together"):
            getattr(self._library, function).restype = ctypes.c_longlong
        self._library.fake_log.argtypes = [ctypes.c_void_p, ctypes.c_longlong]
        self.fail("")

    def fail(self, name):
        self._library.fake_fail(name.encode())

    @property
    def alive(self):
        return self._library.fake_alive()

    @property
    def together(self):
        """Cooperative launches so far, of kernels and of nodes."""
        return self._library.fake_together()

    def calls(self):
        """Each call as (stream, id, grid and block, shared memory, whether odd fields are set, arguments)."""
        room = (ctypes.c_longlong * 1000)()
        flat = list(room[: self._library.fake_log(ctypes.addressof(room), len(room))])
        found = []
        while flat:
            stream, id, *geometry = flat[:8]
            shared, odd, count = flat[8], flat[9:12], flat[12]
            found.append((stream, id, tuple(geometry), shared, odd, flat[13 : 13 + count]))
            flat = flat[13 + count :]
        return found


@pytest.fixture
def fake(library):
    gc.collect()  # of what an error of the test before held
    return Fake(library)


class Kernel:
    """A launch with an argument block of its own. ``values`` may change."""

    def __init__(self, id, values, grid=(2, 3), threads=64, shared=0, cooperative=False):
        self.function = (ctypes.c_longlong * 2)(id, len(values))
        self.values = (ctypes.c_longlong * len(values))(*values)
        step = ctypes.sizeof(ctypes.c_longlong)
        places = [ctypes.addressof(self.values) + step * k for k in range(len(values))]
        self.block = (ctypes.c_void_p * len(values))(*places)
        self.handle = ctypes.addressof(self.function)
        memory = tuple(Memory(4, False) for _ in values[:-1])
        self.launch = Launch(None, grid, threads, shared, ctypes.addressof(self.block), memory, 1, cooperative)
        self.geometry = (*grid, 1, threads, 1, 1)


def graph_of(library, kernels):
    return CudaGraph(GraphFunctions(library), [k.launch for k in kernels], [k.handle for k in kernels])


def test_the_structure_is_the_drivers():
    offsets = {name: getattr(KernelNode, name).offset for name, _ in KernelNode._fields_}
    assert ctypes.sizeof(KernelNode) == 72
    assert offsets["kernelParams"] == 40 and offsets["sharedMemBytes"] == 32 and offsets["ctx"] == 64


def test_a_graph_of_kernels(library, fake):
    kernels = [Kernel(7, [1 << 40, 2, -3]), Kernel(8, [5, 6], (9, 1), 128, 4096), Kernel(9, [10, 11], threads=1024)]
    graph = graph_of(library, kernels)
    assert fake.calls() == []  # nothing runs while it is made
    graph.launch(123)
    expected = [(123, i, k.geometry, k.launch.shared, [0, 0, 0], list(k.values)) for i, k in zip((7, 8, 9), kernels)]
    assert fake.calls() == expected
    kernels[1].values[0] = 500
    graph.launch(0)
    assert [c[5] for c in fake.calls()] == [[1 << 40, 2, -3], [5, 6], [10, 11]]  # as they were when it was made
    graph.update(1)
    graph.launch(2)
    assert [(c[0], c[5]) for c in fake.calls()] == [(2, [1 << 40, 2, -3]), (2, [500, 6]), (2, [10, 11])]


def test_a_graph_with_a_cooperative_kernel(library, fake):
    kernels = [Kernel(7, [1, 2]), Kernel(8, [5, 6], (9, 1), 128, cooperative=True), Kernel(9, [10, 11])]
    graph, before = graph_of(library, kernels), fake.together
    graph.launch(123)
    assert fake.together == before + 1
    kernels[1].values[0] = 500
    graph.update(1)
    graph.launch(123)
    assert fake.together == before + 2 and len(fake.calls()) == 6


class Call:
    """What a library might start: kernels, through the driver's own function."""

    def __init__(self, library, *kernels, refused=False, error=None, **kind):
        self.kernels, self.refused, self.error, self.streams, self.kind = kernels, refused, error, [], kind
        self._launch = ctypes.CDLL(library).cuLaunchKernel
        self._launch.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]

    def __call__(self, stream):
        self.streams.append(stream)
        for k in self.kernels:
            assert self._launch(k.handle, *k.geometry, 0, stream, ctypes.addressof(k.block), None) == 0
        if self.error is not None:
            raise DeviceError(self.error, **self.kind)
        return not self.refused


def graph_with(library, *steps):
    """Of kernels and calls."""
    launches = [s.launch if isinstance(s, Kernel) else s for s in steps]
    handles = [s.handle if isinstance(s, Kernel) else 0 for s in steps]
    return CudaGraph(GraphFunctions(library), launches, handles)


def test_a_graph_with_a_librarys_call(library, fake):
    """What it starts is captured on a stream of its own, becomes part of the graph, and is captured again when it changes."""
    first, last, one, two = Kernel(1, [1, 2]), Kernel(2, [3, 4]), Kernel(7, [70, 71]), Kernel(8, [80, 81], (5, 1))
    call = Call(library, one, two)
    graph = graph_with(library, first, call, last)
    assert fake.calls() == [] and len(call.streams) == 1 and call.streams[0]
    graph.launch(123)
    assert [(c[0], c[1], c[5]) for c in fake.calls()] == [
        (123, 1, [1, 2]), (123, 7, [70, 71]), (123, 8, [80, 81]), (123, 2, [3, 4]),
    ]  # fmt: skip
    two.values[0] = 800
    graph.launch(123)
    assert [c[5] for c in fake.calls()] == [[1, 2], [70, 71], [80, 81], [3, 4]]  # as it was when it was captured
    graph.update(1)
    graph.launch(9)
    assert [c[5] for c in fake.calls()] == [[1, 2], [70, 71], [800, 81], [3, 4]]
    assert call.streams[0] == call.streams[1] != 9
    del graph, call
    gc.collect()
    assert fake.alive == 0


@pytest.mark.parametrize("name", ["cuStreamEndCapture", "cuGraphAddChildGraphNode"])
def test_a_call_that_is_not_captured(name, library, fake):
    fake.fail(name)
    with pytest.raises(NotCapturedError, match=f"{name} failed: CUDA_ERROR_NOT_SUPPORTED") as raised:
        graph_with(library, Kernel(1, [1, 2]), Call(library, Kernel(7, [1, 2])))
    assert raised.value.node == 1
    del raised
    gc.collect()
    assert fake.alive == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"refused": True}, "the library refuses it"),
        ({"error": "It allocates.\nDo without."}, "It allocates.$"),
    ],
)
def test_a_call_that_fails_in_a_capture(options, reason, library, fake):
    """The stream is no longer captured afterwards."""
    call = Call(library, Kernel(7, [1, 2]), **options)
    captures, functions, kernel = Captures(), GraphFunctions(library), Kernel(1, [1, 2])

    def make():
        return CudaGraph(functions, [kernel.launch, call], [kernel.handle, 0], captures)

    for _ in range(2):
        with pytest.raises(NotCapturedError, match=reason):
            make()
    call.refused = call.error = None
    make().launch(5)
    assert [c[1] for c in fake.calls()] == [1, 7]


@pytest.mark.parametrize("kind", ["memory", "lost"])
def test_a_capture_in_which_the_device_fails(kind, library, fake):
    with pytest.raises(DeviceError, match="planted"):
        graph_with(library, Call(library, error="planted", **{kind: True}))
    gc.collect()
    assert fake.alive == 0


def test_a_call_that_starts_something_else_later(library, fake):
    """CUDA changes arguments, not which kernels there are."""
    call = Call(library, Kernel(7, [1, 2]))
    graph = graph_with(library, Kernel(1, [1, 2]), call)
    call.kernels = ()
    with pytest.raises(NotCapturedError, match="cuGraphExecChildGraphNodeSetParams failed") as raised:
        graph.update(1)
    assert raised.value.node == 1


def test_graphs_are_destroyed(library, fake):
    graph = graph_of(library, [Kernel(1, [1, 2]), Kernel(2, [3, 4])])
    assert fake.alive == 2  # the graph and what was made of it
    del graph
    gc.collect()
    assert fake.alive == 0


STEPS = ["Create", "AddKernelNode_v2", "KernelNodeSetAttribute", "InstantiateWithFlags"]


@pytest.mark.parametrize("name", [f"cuGraph{step}" for step in STEPS])
def test_a_graph_that_cannot_be_made(name, library, fake):
    fake.fail(name)
    with pytest.raises(NoGraphError, match=f"{name} failed: CUDA_ERROR_NOT_SUPPORTED: operation not supported"):
        graph_of(library, [Kernel(1, [1, 2]), Kernel(2, [3, 4], cooperative=True)])
    gc.collect()
    assert fake.alive == 0


@pytest.mark.parametrize("name", ["cuGraphLaunch", "cuGraphExecKernelNodeSetParams"])
def test_a_graph_that_fails(name, library, fake):
    kernels = [Kernel(1, [1, 2]), Kernel(2, [3, 4])]
    graph = graph_of(library, kernels)
    fake.fail(name)
    with pytest.raises(MXNetError, match=rf"{name} failed: CUDA_ERROR_NOT_SUPPORTED.*\n.*static_shape=True"):
        graph.update(0) if "Set" in name else graph.launch(0)


def test_no_driver(tmp_path):
    with pytest.raises(NoGraphError, match="cannot be loaded"):
        GraphFunctions(str(tmp_path / "libcuda.so.1"))


def test_an_old_driver():
    with pytest.raises(NoGraphError, match="has no cuGraphCreate; CUDA graphs need a driver for CUDA 12"):
        GraphFunctions("libc.so.6")


THROUGH_CUPY = """\
import contextlib, ctypes, json, sys
sys.path[:0] = json.loads(sys.argv[2])
loaded = ctypes.CDLL(sys.argv[1])  # CuPy, which looks for a library of this name, finds it loaded
import cupy
from runtime.test_cuda_driver import Fake, Kernel
from hybridgpu.backends.cuda.cupy_driver import CupyDriver
driver = CupyDriver.__new__(CupyDriver)
driver._cupy = cupy
fake, kernel = Fake(sys.argv[1]), Kernel(7, [1 << 40, 2, -3], (65535, 3), 256, 1024)
class Function:
    ptr = kernel.handle
start = driver.starter(kernel.launch._replace(kernel=Function))
start(0)
kernel.values[1] = 20
start(1 << 33)
print(json.dumps(fake.calls()))
before = fake.together
together = driver.starter(kernel.launch._replace(kernel=Function, cooperative=True))
together(1 << 33)
print(json.dumps([fake.together - before, fake.calls()]))
driver._device, driver.attach = contextlib.nullcontext(), lambda: None  # the fake has no device to be attached to
print(driver.resident(Function, 256, 1024))
for name, run in (("cuLaunchKernel", start), ("cuLaunchCooperativeKernel", together)):
    fake.fail(name)
    try:
        run(0)
    except cupy.cuda.driver.CUDADriverError as e:
        print(e)
"""


def test_starting_a_kernel_through_cupy(library):
    pytest.importorskip("cupy", reason="kernels are started through CuPy")
    path = json.dumps([str(HERE.parent), str(HERE.parents[1])])
    run = subprocess.run([sys.executable, "-c", THROUGH_CUPY, library, path], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    calls, together, resident, *errors = run.stdout.splitlines()
    geometry = [65535, 3, 1, 256, 1, 1]
    assert json.loads(calls) == [
        [0, 7, geometry, 1024, [0, 0, 0], [1 << 40, 2, -3]],
        [1 << 33, 7, geometry, 1024, [0, 0, 0], [1 << 40, 20, -3]],
    ]
    assert json.loads(together) == [1, [[1 << 33, 7, geometry, 1024, [0, 0, 0], [1 << 40, 20, -3]]]]
    assert int(resident) == 7 * 8 - 1
    assert len(errors) == 2 and all("CUDA_ERROR_NOT_SUPPORTED" in e for e in errors)
