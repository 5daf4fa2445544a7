# SPDX-License-Identifier: Apache-2.0
"""What CupyDevice asks of CuPy when there are several GPUs, and in which order; a module that notes it stands for CuPy."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from emulated import EmulatedDriver

from hybridgpu.backends.cuda import clusters
from hybridgpu.backends.cuda import device as module
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.backends.cuda.device import CupyDevice
from hybridgpu.backends.devices import HostDevice
from hybridgpu.base import MXNetError
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.core.dtypes import f32


class FakeCupy:
    """CuPy with ``count`` devices; ``said`` is what was asked of it, with the device that was current."""

    def __init__(self, count):
        self.said, self.now, self.count = [], 0, count
        self.cuda = self
        self.runtime = self

    def is_available(self):
        return True

    def getDeviceCount(self):  # noqa: N802 - CuPy's name
        return self.count

    def getDevice(self):  # noqa: N802
        return self.now

    def say(self, *words):
        self.said.append((self.now, *words))

    def Device(self, number):  # noqa: N802
        cupy = self

        class Switch:
            compute_capability = "90"

            def __enter__(self):
                self.old, cupy.now = cupy.now, number

            def __exit__(self, *error):
                cupy.now = self.old

            def synchronize(self):
                cupy.say("synchronize", number)

        return Switch()

    def get_current_stream(self, number=None):
        return FakeStream(self, self.now if number is None else number)

    def Event(self, disable_timing):  # noqa: N802
        return f"event {sum('record' in s for s in self.said)}"

    def array(self, value, order):
        self.say("array", value)
        return value

    def asnumpy(self, array):
        return f"{array} on the host"

    def get_default_memory_pool(self):
        return self

    def free_all_blocks(self):
        self.say("free")


class FakeStream:
    def __init__(self, cupy, number):
        self.cupy, self.ptr = cupy, 100 + number

    def record(self, event):
        self.cupy.say("record", self.ptr, event)
        return event

    def wait_event(self, event):
        self.cupy.say("wait", self.ptr, event)


class FakeArray:
    def __init__(self, cupy):
        self.cupy = cupy

    def copy(self):
        self.cupy.say("copy")
        return "copied"


@pytest.fixture(params=[1, 2])
def cupy(request, monkeypatch):
    fake = FakeCupy(request.param)
    monkeypatch.setattr(module, "_cupy", lambda: (fake, ""))
    return fake


def test_the_device_is_switched_where_there_are_several(cupy):
    last = CupyDevice(cupy, cupy.count - 1)
    assert last.needs_switch() == (cupy.count == 2)
    with last.current():
        assert cupy.now == last.id and not last.needs_switch()
    last.from_host("x")
    last.empty_cache()
    assert cupy.said == [(last.id, "array", "x"), (last.id, "free")] and cupy.now == 0
    assert last.stream() == 100 + last.id


@pytest.mark.parametrize("cupy", [2], indirect=True)
def test_copies_between_gpus_are_ordered_on_both_streams(cupy):
    source, target = CupyDevice(cupy, 0), CupyDevice(cupy, 1)
    assert target.adopt(FakeArray(cupy), source) == "copied"
    assert cupy.said == [
        (0, "record", 100, "event 0"),  # what computes it
        (1, "wait", 101, "event 0"),
        (1, "copy"),
        (1, "record", 101, "event 1"),
        (0, "wait", 100, "event 1"),  # before its memory is used again
    ]


def test_copies_from_the_host(cupy):
    assert CupyDevice(cupy, 0).adopt("x", type("Host", (HostDevice,), {"to_host": lambda self, a: a})()) == "x"
    assert HostDevice().adopt("x", CupyDevice(cupy, 0)) == "x on the host"


@pytest.mark.parametrize(
    ("version", "driver", "words"),
    [
        ("13.6.0", 12090, "CuPy 13.6.0 is too old, which has no bfloat16: pip install '.[cuda12]'"),
        ("14.2.0", 12090, "CUDA finds no driver or no device"),
        ("14.2.0", 11040, "the NVIDIA driver is one of CUDA 11, CuPy is built for CUDA 12: update the driver"),
        ("14.2.0", 0, "CUDA finds no driver or no device"),
    ],
    ids=["old CuPy", "no device", "old driver", "no driver"],
)
def test_why_a_gpu_cannot_be_used(monkeypatch, version, driver, words):
    runtime = SimpleNamespace(driverGetVersion=lambda: driver, runtimeGetVersion=lambda: 12090)
    cuda = SimpleNamespace(is_available=lambda: False, runtime=runtime)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(__version__=version, cuda=cuda))
    with pytest.raises(MXNetError, match=r"gpu\(0\) cannot be used: ") as e:
        module.open_device(0)
    assert words in str(e.value)


def test_a_device_may_have_less_than_the_architecture_that_kernels_are_for():
    """As one that is newer than NVRTC, whose kernels are PTX of an older architecture."""
    driver, whole = EmulatedDriver(), CudaBackend(EmulatedDriver(), np, lambda a: 0)
    driver.limits = {"shared_bytes": 99 << 10, "resident_threads": 1536, "cluster_blocks": 1}
    less = CudaBackend(driver, np, lambda a: 0)
    assert less.target == whole.target.changed(shared_bytes=99 << 10, resident_threads=1536, cluster_blocks=1)
    assert less.key() != whole.key()
    b = builder()
    x = b.input(tensor_type((256, 40_000), f32), "x")
    graph = b.finish([b.exp(x - b.reduce("amax", x, (-1,), keepdims=True))], "rows")
    (of_whole,), (of_less,) = (compile_graph(graph, c.target).kernels for c in (whole, less))
    assert "__cluster_dims__" in of_whole.text and "__cluster_dims__" not in of_less.text
    assert of_less.launch["shared"] <= 99 << 10
    driver.limits = {"shared_bytes": 1 << 20}  # one that has more is used as its architecture is known
    assert CudaBackend(driver, np, lambda a: 0).target == whole.target


@pytest.mark.parametrize(("status", "said", "wanted"), [(0, 16, 16), (0, 4, 8), (1, 16, 8), (None, 0, 8)])
def test_large_clusters_are_asked_for(status, said, wanted, monkeypatch):
    """A driver that answers, one that counts otherwise, one that fails, and one without the function."""
    asked = []

    def answer(found, function, config):
        asked.append((function, config._obj.blockDimX))
        found._obj.value = said
        return status

    library = SimpleNamespace(**({} if status is None else {"cuOccupancyMaxPotentialClusterSize": answer}))
    monkeypatch.setattr(clusters.ctypes, "CDLL", lambda name: library)
    allowed = []
    driver = SimpleNamespace(CUDADriverError=OSError, funcSetAttribute=lambda *a: allowed.append(a) or None)
    module = SimpleNamespace(load=lambda code: None, get_function=lambda name: SimpleNamespace(ptr=7))
    cupy = SimpleNamespace(cuda=SimpleNamespace(driver=driver, function=SimpleNamespace(Module=lambda: module)))
    assert clusters.largest_cluster(cupy) == wanted
    if status is not None:
        assert asked == [(7, 1024)] and allowed == [(7, 14, 1)]
