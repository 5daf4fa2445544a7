# SPDX-License-Identifier: Apache-2.0
"""float32 is multiplied as TF32 where that was allowed, by cuBLASLt and by cuDNN, and nowhere else."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from cublaslt_on_cpu.support import FakeProducts
from cudnn_on_cpu.support import Fake
from emulated import install, uninstall

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.backends.cuda.device import CupyDevice
from hybridgpu.backends.devices import device_of
from hybridgpu.backends.library import Libraries, LibraryRequest
from hybridgpu.base import MXNetError
from hybridgpu.compiler import select
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.schedule.matmul import config_cuda
from hybridgpu.core import settings
from hybridgpu.core.dtypes import f16, f32, f64
from hybridgpu.gluon import nn
from hybridgpu.runtime.background import BackgroundJob

GPU = mx.gpu(0)
RNG = np.random.default_rng(3)
X, W, B = (RNG.normal(size=s).astype(np.float32) for s in ((20, 33), (24, 33), (24,)))
IMAGE, KERNEL = (RNG.normal(size=s).astype(np.float32) for s in ((2, 3, 6, 7), (4, 3, 3, 3)))


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    """Libraries compute everything; no setting is made."""
    monkeypatch.delenv("HYBRIDGPU_TF32", raising=False)
    monkeypatch.setattr(config_cuda, "library_seconds", lambda target, dot: 0.0)
    monkeypatch.setattr(select, "_select_conv_of_gpu", lambda *of: select.Selection("library"))
    driver = install(find_products=FakeProducts(tmp_path).find, find=Fake(tmp_path).find)
    yield driver
    uninstall()
    assert settings.set_tf32(None) is None, "a test left its setting"


def rounded(x):
    """To ten bits of mantissa, ties to even."""
    bits = x.view(np.uint32).astype(np.uint64)
    return ((bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000).astype(np.uint32).view(np.float32)


def product(x, w, b):
    return x.astype(np.float64) @ w.astype(np.float64).T + b


def convolution(x, w):
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64))


EXACT = {"product": product(X, W, B), "convolution": convolution(IMAGE, KERNEL)}
TF32 = {"product": product(rounded(X), rounded(W), B), "convolution": convolution(rounded(IMAGE), rounded(KERNEL))}
NOTE = "float32 as TF32"


def is_tf32(y, name):
    """Which of the two the results are: they differ by far more than float32 rounds."""
    y = y.asnumpy()
    distances = [np.abs(y - want[name]).max() / np.abs(want[name]).max() for want in (EXACT, TF32)]
    assert min(distances) < 1e-6 and max(distances) > 1e-5, distances
    return bool(distances[1] < distances[0])


def made(name):
    net = nn.Dense(24, in_units=33) if name == "product" else nn.Conv2D(4, 3, in_channels=3, use_bias=False)
    net.initialize(ctx=GPU)
    net.weight.set_data(nd.array(W if name == "product" else KERNEL))
    if name == "product":
        net.bias.set_data(nd.array(B))
    return net, nd.array(X if name == "product" else IMAGE, ctx=GPU)


#: (environment, allow_tf32 or None for no call, numeric mode) -> whether it is TF32
STATES = [
    ("", "no call", "strict", False),
    ("", "no call", "fast", True),
    ("", True, "strict", True),
    ("", True, "fast", True),
    ("", False, "fast", False),
    ("1", "no call", "strict", True),
    ("on", False, "strict", False),
    ("0", "no call", "fast", False),
    ("0", True, "strict", True),
    ("0", None, "fast", False),
]


@pytest.mark.parametrize(("variable", "call", "numeric", "want"), STATES)
@pytest.mark.parametrize("name", EXACT)
def test_who_allows_it(gpu, monkeypatch, name, variable, call, numeric, want):
    monkeypatch.setenv("HYBRIDGPU_TF32", variable)
    net, x = made(name)
    net.hybridize(numeric=numeric)
    with mx.allow_tf32(None if call == "no call" else call):
        for _ in range(3):
            assert is_tf32(net(x), name) is want
        report = net.explain(x)
        assert (NOTE in str(report)) is want and report.program.tf32 is want
        assert all((NOTE in c.note) is want for c in report.library_calls) and report.library_calls


@pytest.mark.parametrize("name", EXACT)
def test_calls_that_were_prepared_follow(gpu, name):
    """They run another program then, and the first one again afterwards."""
    net, x = made(name)
    net.hybridize()
    for _ in range(2):
        assert [is_tf32(net(x), name) for _ in range(3)] == [False] * 3
        with mx.allow_tf32():
            assert [is_tf32(net(x), name) for _ in range(3)] == [True] * 3
            with mx.allow_tf32(False):
                assert not is_tf32(net(x), name)
            assert is_tf32(net(x), name)
    mx.allow_tf32()
    assert is_tf32(net(x), name)
    mx.allow_tf32(None)
    assert not is_tf32(net(x), name)


@pytest.mark.parametrize("allowed", [True, False])
def test_programs_that_are_made_in_the_background(gpu, allowed):
    """They are what the setting asked for at the call, though it is another one by the time they are made."""
    net, x = made("product")
    net.hybridize(background=True)
    goes_on = threading.Event()
    BackgroundJob(goes_on.wait)
    try:
        with mx.allow_tf32(allowed):
            assert is_tf32(net(x), "product") is allowed
        mx.allow_tf32(not allowed)
    finally:
        goes_on.set()
        BackgroundJob(bool).result(wait=True)  # they are made in turn
    with mx.allow_tf32(allowed):
        assert is_tf32(net(x), "product") is allowed
        assert net.explain(x).program.tf32 is allowed
    assert net.explain(x).program.tf32 is not allowed
    mx.allow_tf32(None)


@pytest.mark.parametrize("name", EXACT)
def test_eager_operators(gpu, name):
    net, x = made(name)
    assert not is_tf32(net(x), name)
    with mx.allow_tf32():
        assert is_tf32(net(x), name)
    assert not is_tf32(net(x), name)


@pytest.mark.parametrize("name", EXACT)
def test_gradients(gpu, name):
    """Of a recorded call both programs."""
    found = []
    for allowed in (False, True):
        net, x = made(name)
        net.hybridize()
        x.attach_grad()
        with mx.allow_tf32(allowed):
            for _ in range(2):
                with autograd.record():
                    y = net(x)
                    z = (y * y).sum()
                z.backward()
            assert is_tf32(y, name) is allowed
            with autograd.record():
                assert (str(net.explain(x)).count(NOTE) >= 2) is allowed
        found.append([x.grad.asnumpy(), net.weight.grad().asnumpy()])
    for plain, reduced in zip(*found, strict=True):
        error = np.abs(plain - reduced).max() / np.abs(plain).max()
        assert 1e-5 < error < 2**-9


def test_executors(gpu):
    net, x = made("product")
    bound = net(mx.sym.var("x")).bind(GPU, {"x": x, **{k: p.data(GPU) for k, p in net.collect_params().items()}})
    for _ in range(12):  # until it is compiled
        assert not is_tf32(bound.forward()[0], "product")
    with mx.allow_tf32():
        assert is_tf32(bound.forward()[0], "product")
    assert not is_tf32(bound.forward()[0], "product")


@pytest.mark.parametrize("dtype", [f16, f64])
def test_other_types_are_what_they_were(gpu, dtype):
    library = device_of(GPU).library
    types = [tensor_type(s, dtype) for s in ((20, 33), (33, 24))]
    notes = {
        library.prepare(LibraryRequest("dot", types, {}, tensor_type((20, 24), dtype), "x", tf32=t)).note
        for t in (True, False)
    }
    assert len(notes) == 1 and NOTE not in notes.pop()


def test_keys_and_costs(gpu, monkeypatch):
    """Programs of the two are never mixed up, and the choice knows that the library is faster."""
    backend = device_of(GPU).backend()
    keys = {backend.key()}
    for allowed in (True, False):
        with mx.allow_tf32(allowed):
            keys.add(backend.key())
            assert backend.target.tf32 is allowed
    assert len(keys) == 3
    monkeypatch.undo()
    dot = config_cuda.DotShape(f32, 1, 4096, 4096, 4096, (4096, 1), (4096, 1), 4, 4)
    seconds = [config_cuda.library_seconds(replace(backend.target, tf32=t), dot) for t in (False, True)]
    assert seconds[1] < seconds[0]


def test_devices_without_it(gpu, monkeypatch):
    """Before compute capability 8.0."""
    backend = device_of(GPU).backend()
    for arch, want in (("sm_75", False), ("sm_80", True), ("sm_120", True), ("compute_90", True)):
        monkeypatch.setattr(backend.driver, "arch", arch, raising=False)
        other = type(backend)(backend.driver, backend.xp, backend._address, backend._library)
        with mx.allow_tf32():
            assert other.target.tf32 is want


@pytest.mark.parametrize("word", [1, "yes", 0])
def test_nothing_but_true_false_none(word):
    with pytest.raises(MXNetError, match="allow_tf32 takes True, False or None"):
        mx.allow_tf32(word)


def test_a_text_that_says_neither(gpu, monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_TF32", "perhaps")
    net, x = made("product")
    net.hybridize()
    with pytest.raises(MXNetError, match="Invalid Input: 'perhaps'.*HYBRIDGPU_TF32"):
        net(x)


@pytest.mark.parametrize(("has", "asked"), [(True, True), (True, False), (False, True), (False, False)])
def test_libraries_of_a_device_without_it_are_never_asked_for_it(has, asked):
    class Recording:
        def prepare(self, request):
            return request.tf32

    kind = tensor_type((4, 4), f32)
    found = Libraries(Recording(), tf32=has).prepare(LibraryRequest("dot", (kind, kind), {}, kind, "dot", tf32=asked))
    assert found is (has and asked)


@pytest.mark.parametrize(("capability", "has"), [(75, False), (80, True), (90, True)])
def test_devices_know_whether_they_have_it(gpu, monkeypatch, capability, has):
    monkeypatch.setattr(CupyDevice, "compute_capability", capability)
    assert CupyDevice(device_of(GPU).xp, 0).library._tf32 is has
