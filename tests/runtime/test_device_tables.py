# SPDX-License-Identifier: Apache-2.0
"""What is known of a GPU: shipped tables, figures that ``hybridgpu calibrate`` stored, and what is refused among them."""

from __future__ import annotations

import json
import math
import os
import stat
from math import prod

import numpy as np
import pytest
from compiler.cases import CASES, build
from emulated import EmulatedDriver

from hybridgpu.backends.cuda import device_tables
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.backends.cuda.device_tables import PLAUSIBLE, Gpu, digest, known, rounded, shipped
from hybridgpu.cache.disk_cache import Store
from hybridgpu.compiler.devices.gpu import GpuConstants
from hybridgpu.compiler.devices.record import constants_of
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.target import CUDA

GPU = Gpu("NVIDIA H200", 132, 12090)
OTHERS = [GPU._replace(name="NVIDIA H100"), GPU._replace(multiprocessors=66), GPU._replace(driver=13000)]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache")


def file_of(store, gpu=GPU):
    return store.folder / "devices" / gpu.file


# -- shipped


def entries():
    return [(name, e) for e in device_tables._tables() for name in e["names"]]


@pytest.mark.parametrize(("name", "entry"), entries(), ids=[n for n, _ in entries()])
def test_a_shipped_table_says_where_each_figure_is_from(name, entry):
    values, sources = shipped(Gpu(name, entry["multiprocessors"], 12090))
    assert {"clock", "byte_seconds", "tensor_lanes"} <= set(values) == set(sources)
    assert all(s.startswith(("datasheet: ", "assumed: ")) and entry["sheet"] in s for s in sources.values())
    assert values == device_tables.checked(dict(values))


def test_every_wanted_gpu_has_a_table():
    names = " ".join(name for name, _ in entries())
    assert all(kind in names for kind in ("H100", "H200", "A100", "L4", "RTX 4090", "B200"))
    assert len(names.split("NVIDIA")) - 1 == len({n for n, _ in entries()}) == len(entries())


def test_a_gpu_without_a_table_has_what_its_architecture_says(store):
    assert known(Gpu("NVIDIA Unheard Of", 132, 12090), store).values == {}
    assert shipped(GPU._replace(multiprocessors=66)).values == {}, "a part of a GPU is another one"


# -- rounding


@pytest.mark.parametrize("name", PLAUSIBLE)
def test_rounding(name):
    low, high = PLAUSIBLE[name]
    integer = isinstance(next(c.default for c in constants_of(GpuConstants) if c.name == name), int)
    for value in np.geomspace(max(low, 8 if integer else 0), high, 500):
        near = rounded(name, value)
        assert isinstance(near, int) == integer
        assert abs(math.log(near / value)) <= math.log(1.15) / 2 + 0.02 + (0.06 if integer and near < 100 else 0)
        assert rounded(name, near) == near, "what was rounded stays"


def test_figures_that_differ_little_are_mostly_one():
    drawn = np.random.default_rng(0).normal(1, 0.01, 300)
    assert len({rounded("byte_seconds", 2.37e-13 * x) for x in drawn}) <= 2


# -- stored


def test_what_was_kept_is_known_of_this_gpu_alone(store):
    before = known(GPU, store)
    path = device_tables.keep(GPU, {"clock": 1.78e9, "lone_share": 3.16}, "2026-11-23", store)
    assert path == file_of(store) and path.is_file()
    found = known(GPU, store)
    assert found.values == {**before.values, "clock": 1.78e9, "lone_share": 3.16}
    assert found.sources["clock"] == "measured on this machine, 2026-11-23"
    assert found.sources["byte_seconds"] == before.sources["byte_seconds"]
    for other in OTHERS:
        assert known(other, store) == shipped(other)
    assert device_tables.forget(GPU, store) and known(GPU, store) == before and not device_tables.forget(GPU, store)


def test_it_is_no_cache(store):
    """Neither is it deleted with entries nor counted among them."""
    device_tables.keep(GPU, {"clock": 1.78e9}, "now", store)
    store.put("kernel", "ab" * 20, b"x" * 1000)
    assert store.usage().entries == 1 and store.clear() == 1
    Store(store.folder, limit=1).trim()
    assert known(GPU, store).values["clock"] == 1.78e9


def test_nothing_lasts_in_a_temporary_cache(tmp_path):
    store = Store(tmp_path / "cache", temporary=True)
    assert device_tables.keep(GPU, {"clock": 1.78e9}, "now", store) is None
    assert known(GPU, store) == shipped(GPU)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_keeps_nothing(store):
    store.folder.mkdir()
    store.folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert device_tables.keep(GPU, {"clock": 1.78e9}, "now", store) is None


def _sealed(store, data: bytes, name: str = "") -> None:
    """A file whose checksum is right."""
    assert store.keep("devices", name or GPU.file, data)


def _document(**changes) -> bytes:
    whole = {"schema": 1, "device": GPU._asdict(), "date": "now", "constants": {"clock": 1.78e9}}
    return json.dumps({**whole, **changes}).encode()


def test_the_document_that_is_spoilt_below_is_read(store):
    _sealed(store, _document())
    assert known(GPU, store).values["clock"] == 1.78e9


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"{",
        b"[" * 100_000,
        _document(schema=2),
        _document(device=OTHERS[0]._asdict()),
        _document(device=None),
        _document(constants=[]),
        _document(constants={"clock": "1.78e9"}),
        _document(constants={"clock": True}),
        _document(constants={"clock": 0}),
        _document(constants={"clock": -1.78e9}),
        _document(constants={"clock": float("nan")}),
        _document(constants={"clock": float("inf")}),
        _document(constants={"clock": 1e300}),
        _document(constants={"lanes": 128.5}),
        _document(constants={"shared_bytes": 1 << 20}),  # which a device has or has not
        _document(constants={"multiprocessors": 1}),
        _document(constants={"no_such_figure": 1.0}),
        json.dumps({"schema": 1, "device": GPU._asdict(), "constants": {}}).encode(),
    ],
)
def test_hostile_content_is_refused(store, data):
    _sealed(store, data)
    assert known(GPU, store) == shipped(GPU)


def test_a_file_that_is_not_as_it_was_written_is_refused(store):
    device_tables.keep(GPU, {"clock": 1.78e9}, "now", store)
    whole = file_of(store).read_bytes()
    for spoilt in (whole[:-1], whole.replace(b"1780000000.0", b"1880000000.0"), whole[:-32], b"", whole + b"x"):
        assert spoilt != whole
        file_of(store).write_bytes(spoilt)
        assert known(GPU, store) == shipped(GPU)
    file_of(store).write_bytes(whole)
    assert known(GPU, store).values["clock"] == 1.78e9
    other = OTHERS[2]
    file_of(store, other).write_bytes(whole)  # another one's
    assert known(other, store) == shipped(other)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes as POSIX has them")
def test_a_pipe_in_its_place_does_not_hang(store):
    device_tables.keep(GPU, {"clock": 1.78e9}, "now", store)
    file_of(store).unlink()
    os.mkfifo(file_of(store))
    assert known(GPU, store) == shipped(GPU)


# -- what they are for


def test_constants_of_a_driver_are_its_target_s_and_part_of_keys():
    plain, other = EmulatedDriver(), EmulatedDriver()
    other.constants = {"clock": 1.78e9, "bytes_in_flight": 49152}
    one, two = (CudaBackend(d, np, lambda a: 0) for d in (plain, other))
    assert (two.target.gpu.clock, two.target.gpu.bytes_in_flight) == (1.78e9, 49152)
    assert two.target == one.target.changed(**other.constants)
    assert one.key() != two.key() and one.key() == CudaBackend(EmulatedDriver(), np, lambda a: 0).key()


def _extreme(end: int) -> dict[str, float]:
    whole = {c.name for c in constants_of(GpuConstants) if isinstance(c.default, int)}
    found = {name: float(f"{bounds[end]:.3g}") for name, bounds in PLAUSIBLE.items()}
    return {name: max(1, round(value)) if name in whole else value for name, value in found.items()}


@pytest.mark.long_table
@pytest.mark.parametrize(
    "constants",
    [_extreme(0), _extreme(1), *(shipped(Gpu(n, e["multiprocessors"], 0)).values for n, e in entries()[::5])],
    ids=["least", "most", *(n for n, _ in entries()[::5])],
)
def test_any_plausible_constants_make_programs(constants):
    """Whatever a table says, some form of each kernel is chosen."""
    target = CUDA.changed(**constants, resident="auto")
    for name in CASES:
        program = compile_graph(build(name), target)
        assert program.steps or not any(prod(shape) for shape, _ in program.outputs), name


def test_every_constant_is_part_of_the_digest():
    for c in constants_of(GpuConstants):
        held = getattr(CUDA.gpu, c.name)
        value = not held if isinstance(held, bool) else held + type(held)(1)
        assert digest(CUDA.changed(**{c.name: value}).gpu) != digest(CUDA.gpu), c.name
