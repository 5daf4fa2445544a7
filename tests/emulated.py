# SPDX-License-Identifier: Apache-2.0
"""A GPU that is not there: CUDA programs executed on the CPU, exactly as generated, under checks.

``install()`` puts it behind ``mx.gpu(0)``: arrays are NumPy arrays, library calls are NumPy's, and
every kernel launch runs in tests/cuda_on_cpu with bounds, race, alignment, initialisation and
restrict checks. Each launch also proves that the kernel writes every element of its outputs, and
that its traffic is what the plan says.

Arguments are read from the argument blocks, as CUDA reads them: at a launch, or when a node of a graph is made
or updated. A graph whose nodes do not have the arguments of the call that starts it is an error. What the stand-ins for
NVIDIA's libraries start comes by :func:`on_stream`: it runs, waits, or becomes part of the graph that is being made.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
from cuda_on_cpu import Buffer, Module
from emulated_arrays import DeviceModule, on_host

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.backends.cuda.cublaslt_dot import ProductLibrary
from hybridgpu.backends.cuda.cudnn import Binding
from hybridgpu.backends.cuda.cudnn_conv import ConvolutionLibrary
from hybridgpu.backends.cuda.driver import (
    KernelGraph,
    Launch,
    LibraryStart,
    NoGraphError,
    NotCapturedError,
    module_source,
)
from hybridgpu.backends.cuda.nvrtc import NUMERIC
from hybridgpu.backends.cuda.user_kernels import UserModule, missing_kernel
from hybridgpu.backends.device_errors import DeviceError
from hybridgpu.backends.devices import use_gpu_devices
from hybridgpu.backends.library import Libraries
from hybridgpu.cache.package_files import kernels_folder
from hybridgpu.compiler.program import KernelInfo, KernelStep, Program
from hybridgpu.core.dtypes import from_short

TIMEOUT = 20.0  #: seconds of a kernel
ORDERS = itertools.cycle(["forward", "reverse", "shuffle"])


class Started:
    """What one launch did, for tests that look closer.

    Attributes:
        arguments: the addresses and numbers it was given.
        stream: address of the stream.
        graph: whether a graph started it.
    """

    def __init__(
        self, kernel: str, report: Any, read: int, written: int, arguments: Sequence[int], stream: int
    ) -> None:
        self.kernel, self.report, self.read, self.written = kernel, report, read, written
        self.arguments, self.stream, self.graph = list(arguments), stream, False


def prepare(kernels: Sequence[KernelInfo], checked: bool = True) -> None:
    """Compile what :meth:`EmulatedDriver.load` will want, many kernels at a time."""
    for numeric in dict.fromkeys(k.numeric for k in kernels):
        texts = [(module_source([k]), [k.name]) for k in kernels if k.numeric == numeric]
        Module.prepare(texts, [str(kernels_folder())], NUMERIC[numeric], checked)


class EmulatedStream:
    """A stream; what is started on it runs at once, or at ``synchronize`` while the driver defers."""

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr
        self.queue: list[Callable[[], None]] = []


class _Thread(threading.local):
    """What belongs to a thread: its current device and, for each device, its current stream; what it captures."""

    def __init__(self) -> None:
        self.device = 0
        self.captured: list[Callable[[], None]] | None = None
        self.streams: dict[int, EmulatedStream] = {}
        self.attached: set[int] = set()


THREAD = _Thread()
CAPTURED = 0xCA97  #: the stream on which libraries' calls are captured


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
def on_stream(stream: int | None, function: int, data: int | None) -> None:
    """What a stand-in for a library starts on a stream: a function of the host with its argument."""
    run = functools.partial(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function), data)
    if stream == CAPTURED:
        assert THREAD.captured is not None, "a library's call on a stream that is not captured any more"
        THREAD.captured.append(run)
        return
    assert THREAD.captured is None, f"a library's call on stream {stream} while another one is captured"
    driver = next((d for d in _drivers if d.device == THREAD.device), None)
    if driver is not None and driver.deferring:
        driver.stream_of(stream or 0).queue.append(run)
    else:
        run()


class EmulatedDriver:
    """The seam of backends/cuda/driver.py over the CUDA-on-CPU harness.

    Attributes:
        device: the number of the device; it has to be the current one whenever something is started.
        launches: what was started.
        made, updated, replayed: how many graphs were made, nodes updated, graphs started.
        captured: how many calls of libraries were captured.
        no_graphs: a reason why graphs cannot be used.
        no_captures: a reason why libraries' calls cannot be part of them.
        deferring: what is started waits for :meth:`run_streams`.
    """

    arch = "sm_90"
    identity = "cuda_on_cpu sm_90"
    cooperative = False  #: tests that want small kernels put together say so
    limits: Mapping[str, int] = MappingProxyType({})
    constants: Mapping[str, float] = MappingProxyType({})

    def __init__(self, multiprocessors: int = 2, checked: bool = True, device: int = 0) -> None:
        # few multiprocessors: grids are smaller than the work, so that grid loops really loop
        self.multiprocessors, self.compiled, self.checked = multiprocessors, 0, checked
        self.compiled_kernels: list[str] = []
        self.device = device
        self.modules: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self._default = EmulatedStream(0)
        self._streams: dict[int, EmulatedStream] = {0: self._default}
        self.deferring = False
        self.no_graphs = self.no_captures = ""
        self.launches: list[Started] = []
        self.made = self.updated = self.replayed = self.captured = 0
        self._executing = threading.Lock()  # the harness runs one kernel at a time

    def forget(self) -> None:
        """Start again with what is counted."""
        self.launches.clear()
        self.made = self.updated = self.replayed = self.captured = 0

    def load(self, kernels: Sequence[KernelInfo]) -> dict[str, Any]:
        prepare([k for k in kernels if k.name not in self.modules], self.checked)
        for k in kernels:
            if k.name not in self.modules:
                self.compiled += 1
                self.compiled_kernels.append(k.name)
                source = module_source([k])
                self.sources[k.name] = source
                folders, options = [str(kernels_folder())], NUMERIC[k.numeric]
                module = Module(source, include_dirs=folders, options=options, names=[k.name], check=self.checked)
                self.modules[k.name] = (k.name, module[k.name])
        return {k.name: self.modules[k.name] for k in kernels}

    def resident(self, kernel: Any, threads: int, shared: int) -> int:
        return 2  # again fewer blocks than there is work for

    def is_current(self) -> None:
        """Check the current device."""
        assert THREAD.device == self.device, f"device {THREAD.device} is current where gpu({self.device}) is used"

    def attach(self) -> None:
        THREAD.attached.add(self.device)

    def stream(self) -> EmulatedStream:
        return THREAD.streams.get(self.device, self._default)

    @contextmanager
    def using(self, stream: EmulatedStream) -> Iterator[EmulatedStream]:
        """Makes a stream the current one of this thread and device."""
        old = self.stream()
        THREAD.streams[self.device] = self._streams[stream.ptr] = stream
        try:
            yield stream
        finally:
            THREAD.streams[self.device] = old

    def is_capturing(self) -> bool:
        return False

    def starter(self, launch: Launch) -> Callable[[int], None]:
        return lambda stream: self.start(launch, read_block(launch), stream)

    def user_function(self, module: UserModule, name: str) -> Any:
        self.is_current()
        found = Module(module.source, options=list(module.options), names=list(module.lowered))
        if name not in found.names:
            raise missing_kernel(name)
        return found[name]

    def start_user_function(
        self, function: Any, grid: Sequence[int], block: Sequence[int], shared: int, arguments: Sequence[Any]
    ) -> None:
        self.is_current()
        with self._executing:
            given = [Buffer(on_host(x)) if x.ndim else x[()] for x in arguments]
            function(grid, block, given, shared_mem=shared, order=next(ORDERS), timeout=TIMEOUT)
            for x, b in zip(arguments, given, strict=True):
                if isinstance(b, Buffer):
                    on_host(x)[...] = b.get()
                    b.free()

    def graph(self, steps: Sequence[Launch | LibraryStart]) -> KernelGraph:
        if self.no_graphs:
            raise NoGraphError(self.no_graphs)
        self.is_current()
        graph = EmulatedGraph(self, steps)
        self.made += 1
        return graph

    def capture(self, start: LibraryStart, node: int) -> list[Callable[[], None]]:
        """What a library's call starts, which is not done now."""
        self.is_current()
        assert THREAD.captured is None, "a stream is captured already"
        if self.no_captures:
            raise NotCapturedError(node, self.no_captures)
        found = THREAD.captured = []
        try:
            if not start(CAPTURED):
                raise NotCapturedError(node, "the library refuses it")
        except DeviceError as e:
            raise NotCapturedError.of(node, e) from e
        finally:
            THREAD.captured = None
        self.captured += 1
        return found

    def stream_of(self, ptr: int) -> EmulatedStream:
        """The stream with an address."""
        return self._streams[ptr]

    def start(self, launch: Launch, arguments: Sequence[int], stream: int, graph: bool = False) -> None:
        """Start a kernel with these arguments."""
        self.is_current()
        assert self.device in THREAD.attached, "this thread has no CUDA context yet: attach() was not called"
        assert stream in self._streams, f"there is no stream {stream} on gpu({self.device})"

        def run() -> None:
            with self._executing:
                self._execute(launch, arguments, stream)
                self.launches[-1].graph = graph

        if self.deferring:
            self._streams[stream].queue.append(run)
        else:
            run()

    def run_captured(self, functions: Sequence[Callable[[], None]], stream: int) -> None:
        """Start what a library's call started when it was captured."""
        self.is_current()
        for function in functions:
            if self.deferring:
                self._streams[stream].queue.append(function)
            else:
                function()

    def run_streams(self, order: Sequence[int]) -> None:
        """Run what waits: one kernel of each stream in turn, streams in the order of these addresses."""
        while any(self._streams[s].queue for s in order):
            for s in order:
                if self._streams[s].queue:
                    self._streams[s].queue.pop(0)()

    def _execute(self, launch: Launch, values: Sequence[int], stream: int) -> None:
        name, function = launch.kernel
        buffers: dict[int, Buffer] = {}
        arguments: list[Any] = []
        addresses = values[: len(launch.memory)]
        taken = {a for a, m in zip(addresses, launch.memory, strict=True) if not m.written}
        given = {a for a, m in zip(addresses, launch.memory, strict=True) if m.written}
        parts: dict[int, int] = {}  # of joins, the rest of which other kernels write
        for address, m in zip(addresses, launch.memory, strict=True):
            if m.part:
                parts[address] = parts.get(address, 0) + m.part
        barrier = addresses[-1] if launch.cooperative else 0
        if launch.cooperative:
            buffers[barrier] = Buffer(_bytes_at(barrier, 4), name="barrier")
        for k, (address, m) in enumerate(zip(addresses, launch.memory, strict=True)):
            assert address % 16 == 0, f"argument {k} of {name} is not aligned: {address:#x}"
            known = buffers.get(address)
            if known is None:
                label = f"argument {k}"
                known = (
                    Buffer(_bytes_at(address, m.nbytes), name=label)
                    if address in taken or address in parts
                    else Buffer.empty(m.nbytes, np.uint8, name=label)
                )
                buffers[address] = known
            assert known.nbytes == m.nbytes or address not in given, (
                f"argument {k} of {name} shares memory with one of another size"
            )
            arguments.append(known)
        arguments += [np.int64(n) for n in values[len(launch.memory) :]]
        report = function(
            launch.grid,
            launch.threads,
            arguments,
            shared_mem=launch.shared,
            order=next(ORDERS),
            seed=len(self.launches),
            cooperative=launch.cooperative,
            timeout=TIMEOUT,
        )
        read = written = 0
        if launch.cooperative:
            word = buffers.pop(barrier)
            _bytes_at(barrier, 4)[:] = word.bytes()
            assert int(word.bytes().view(np.uint32)[0]) % (1 << 31) == 0, f"{name} leaves its barrier half open"
            word.free()
        for address, m in zip(addresses, launch.memory, strict=True):
            b = buffers.pop(address, None)
            if b is None:
                continue
            if address in parts:
                stored = b.written()
                left = parts[address] - int(stored.sum())
                assert not left, f"{name} leaves {left} of {parts[address]} bytes of its part unwritten"
                np.copyto(_bytes_at(address, m.nbytes), b.bytes(), where=stored)
                written += parts[address]
            elif address in given:
                left = int((~b.written()).sum()) if address in taken else b.unwritten()
                assert not left, f"{name} leaves {left} of {m.nbytes} bytes of an output unwritten"
                _bytes_at(address, m.nbytes)[:] = b.bytes()
                written += m.nbytes
            if address in taken or b.read().any():  # (a later phase reads what was written)
                read += int(b.read().sum())
            b.free()
        self.launches.append(Started(name, report, read, written, values, stream))


def read_block(launch: Launch) -> list[int]:
    """The arguments that an argument block points to now: addresses, then integers."""
    pointers, count = len(launch.memory), len(launch.memory) + launch.numbers
    block = (ctypes.c_void_p * count).from_address(launch.parameters) if count else ()
    kinds = [ctypes.c_uint64] * pointers + [ctypes.c_int64] * launch.numbers
    return [kind.from_address(place).value for kind, place in zip(kinds, block, strict=True)]


class EmulatedGraph:
    """Kernels with the arguments that they had when the graph was made, or the node updated, and captured calls."""

    def __init__(self, driver: EmulatedDriver, steps: Sequence[Launch | LibraryStart]) -> None:
        self._driver = driver
        self._nodes: list[tuple[Any, list[Any]]] = [
            (step, read_block(step) if isinstance(step, Launch) else driver.capture(step, k))
            for k, step in enumerate(steps)
        ]

    def update(self, node: int) -> None:
        step, old = self._nodes[node]
        now = read_block(step) if isinstance(step, Launch) else self._driver.capture(step, node)
        assert now != old, f"node {node} ({step.kernel[0]}) is updated with the arguments it has"
        self._nodes[node] = step, now
        self._driver.updated += 1

    def launch(self, stream: int) -> None:
        for k, (step, arguments) in enumerate(self._nodes):
            if isinstance(step, Launch):
                now = read_block(step)
                assert arguments == now, f"node {k} ({step.kernel[0]}) has stale arguments: {arguments}, not {now}"
        for step, found in self._nodes:
            if isinstance(step, Launch):
                self._driver.start(step, found, stream, graph=True)
            else:
                self._driver.run_captured(found, stream)
        self._driver.replayed += 1


def _bytes_at(address: int, nbytes: int) -> np.ndarray:
    if not nbytes:
        return np.empty(0, np.uint8)
    return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8)


def no_cudnn(cuda: int) -> str:
    """cuDNN computes on GPUs only; tests/cudnn_on_cpu has one for the emulated device."""
    return "cuDNN needs a GPU"


def no_cublaslt(cuda: int) -> str:
    """Nor does cuBLASLt; tests/cublaslt_on_cpu has one."""
    return "cuBLASLt needs a GPU"


class EmulatedDevice:
    """A device whose memory is the host's.

    Args:
        find: cuDNN for a major version of CUDA, or why there is none.
        several: it is one of several, and checks that it is the current one wherever work is started.
        find_products: cuBLASLt, likewise.
    """

    def __init__(
        self,
        device_id: int,
        driver: EmulatedDriver,
        find: Callable[[int], Binding | str] = no_cudnn,
        several: bool = False,
        find_products: Callable[[int], Any] = no_cublaslt,
    ) -> None:
        self.id, self.driver, self.several = device_id, driver, several
        self.xp: Any = DeviceModule(device_id, driver.is_current, aligned) if several else np
        self.convolutions, self.products = ConvolutionLibrary(self, find), ProductLibrary(self, find_products)
        self.library = Libraries(self.convolutions, self.products)
        self._backend = CudaBackend(driver, self.xp, self.address, self.library)
        self.synchronized = 0

    def from_host(self, array: Any) -> Any:
        with self.current():
            out = self._empty(array.shape, array.dtype)
            out[...] = array
            return self.xp.place(out) if self.several else out

    def _empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        if self.several:
            self.driver.is_current()
        return aligned(shape, dtype)

    def to_host(self, array: Any) -> Any:
        return np.array(on_host(array), order="C")

    def adopt(self, array: Any, source: Any) -> Any:
        return self.from_host(source.to_host(array))

    def address(self, array: Any) -> int:
        return int(array.__array_interface__["data"][0])

    def memory(self, array: Any) -> tuple[Any, Any]:
        owner = array if array.base is None else array.base
        return owner, owner

    def is_capturing(self) -> bool:
        return False

    def capture_scope(self) -> Any:
        raise AssertionError("no stream is captured here")

    def synchronize(self) -> None:
        self.synchronized += 1

    def stream(self) -> int:
        return self.driver.stream().ptr

    def cuda_version(self) -> int:
        return 12

    @contextmanager
    def current(self) -> Iterator[None]:
        old, THREAD.device = THREAD.device, self.id
        try:
            yield
        finally:
            THREAD.device = old

    def needs_switch(self) -> bool:
        return THREAD.device != self.id

    def backend(self) -> CudaBackend:
        return self._backend

    def memory_info(self) -> tuple[int, int]:
        return 1 << 30, 1 << 31

    def empty_cache(self) -> None:
        self._backend.arenas.release()


def aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array whose data is aligned as cudaMalloc aligns."""
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(nbytes + 256, np.uint8)
    skip = -raw.__array_interface__["data"][0] % 256
    return raw[skip : skip + nbytes].view(dtype).reshape(shape)


def run_program(
    program: Program, inputs: Sequence[np.ndarray], driver: EmulatedDriver, exact: bool = True
) -> list[Any]:
    """The results of a program, for the host or for CUDA.

    Args:
        exact: in CUDA's kernels what is read and written is the plan's, and nothing is read again.
    """
    outputs = [aligned(shape, from_short(short).np) for shape, short in program.outputs]
    held = [aligned(x.shape, x.dtype) for x in inputs]
    for copy, x in zip(held, inputs, strict=True):
        copy[...] = x
    if program.target == "cpu":
        backend = cpu_backend()
        assert backend is not None
        backend.load(program)(held, outputs)
        return outputs
    before = len(driver.launches)
    CudaBackend(driver, np, lambda a: int(a.__array_interface__["data"][0])).load(program)(held, outputs)
    steps = [s for s in program.steps if isinstance(s, KernelStep)]
    for launch, step in zip(driver.launches[before:], steps, strict=True):
        assert not exact or (launch.read, launch.written) == (step.bytes_read, step.bytes_written)
    assert not exact or not any(k.choice.get("reread_bytes") for k in program.kernels)
    return outputs


_drivers: list[EmulatedDriver] = []


def install(count: int = 1, **finds: Callable[[int], Any]) -> EmulatedDriver:
    """Put emulated devices behind ``mx.gpu(0)`` and so on; compiled kernels are kept for the process.

    Args:
        finds: ``find`` and ``find_products``, as for EmulatedDevice.

    Returns:
        The driver of gpu(0); ``drivers()`` has all.
    """
    while len(_drivers) < count:
        _drivers.append(EmulatedDriver(device=len(_drivers)))
        _drivers[-1].modules, _drivers[-1].sources = _drivers[0].modules, _drivers[0].sources

    def factory(device_id: int) -> EmulatedDevice:
        assert device_id < count, f"there are {count} emulated GPUs"
        return EmulatedDevice(device_id, _drivers[device_id], several=count > 1, **finds)

    factory.count = count  # type: ignore[attr-defined]
    use_gpu_devices(factory)
    return _drivers[0]


def drivers() -> list[EmulatedDriver]:
    """Those of all devices that were installed."""
    return _drivers


def uninstall() -> None:
    use_gpu_devices(None)
