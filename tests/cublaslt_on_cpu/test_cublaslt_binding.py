# SPDX-License-Identifier: Apache-2.0
"""Finding cuBLASLt and binding its functions: the system, wheels, versions, and what is said when there is none."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from types import SimpleNamespace

import pytest
from cublaslt_on_cpu.support import FakeProducts

from hybridgpu.backends.cuda import cublaslt
from hybridgpu.backends.cuda.cublaslt import Binding, CublasLtError, Descriptor, Heuristic, find
from hybridgpu.base import MXNetError


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch):
    """A machine without cuBLASLt, whatever this one has."""
    monkeypatch.delenv("HYBRIDGPU_CUBLASLT", raising=False)
    monkeypatch.setattr(cublaslt, "_wheel", lambda cuda: [])
    monkeypatch.setattr(cublaslt, "_name", lambda cuda: f"libcublasLt-of-nobody.so.{cuda}")


def test_none():
    assert find(12) == "cuBLASLt was not found: pip install nvidia-cublas-cu12"
    assert find(13) == "cuBLASLt was not found: pip install nvidia-cublas"
    assert find(11) == "cuBLASLt of CUDA 11 is not known here, only of 12 and 13"


def wheel(monkeypatch, tmp_path, *options, cuda=12):
    """NVIDIA's wheel with the stand-in in it."""
    folder = FakeProducts(tmp_path, *options).in_wheel(tmp_path, f"libcublasLt-of-nobody.so.{cuda}")
    monkeypatch.setattr(cublaslt, "_wheel", lambda cuda: [folder])


@pytest.mark.long_table
@pytest.mark.parametrize(
    ("options", "cuda", "said"),
    [
        ((), 12, "12.3.1"),
        (("-DFAKE_MAJOR=13",), 13, "13.3.1"),
        (("-DFAKE_MAJOR=11",), 12, None),
    ],
)
def test_versions(monkeypatch, tmp_path, options, cuda, said):
    wheel(monkeypatch, tmp_path, *options, cuda=cuda)
    found = find(cuda)
    if said is None:
        assert found == "cuBLASLt 11.3.1 is not that of CUDA 12, which the arrays use"
    else:
        assert isinstance(found, Binding) and found.major == cuda and found.version == said


def test_a_library_that_lacks_a_function(monkeypatch, tmp_path):
    wheel(monkeypatch, tmp_path, "-DFAKE_LACKS")
    said = find(12)
    assert said.startswith("libcublasLt-of-nobody.so.12 is no cuBLASLt that is known here: ")
    assert "cublasLtMatmul" in said


def test_a_file_that_does_not_load(monkeypatch, tmp_path):
    (tmp_path / "libcublasLt-of-nobody.so.12").write_bytes(b"no library")
    monkeypatch.setattr(cublaslt, "_wheel", lambda cuda: [str(tmp_path)])
    assert find(12).startswith("cuBLASLt is installed, but does not load: ")


def test_it_can_be_left_out(monkeypatch, tmp_path):
    wheel(monkeypatch, tmp_path)
    monkeypatch.setenv("HYBRIDGPU_CUBLASLT", "0")
    assert find(12) == "HYBRIDGPU_CUBLASLT=0"
    monkeypatch.setenv("HYBRIDGPU_CUBLASLT", "1")
    assert isinstance(find(12), Binding)


def test_the_wheels_folders(monkeypatch):
    monkeypatch.undo()
    places = {"nvidia.cublas": None, "nvidia.cu13": SimpleNamespace(submodule_search_locations=["A"])}

    def spec(name):
        if name not in places:
            raise ModuleNotFoundError(name)
        return places[name]

    monkeypatch.setattr("importlib.util.find_spec", spec)
    assert [f.replace("\\", "/") for f in cublaslt._wheel(13)] == ["A/lib", "A/bin"]
    assert cublaslt._wheel(12) == []
    places["nvidia.cublas"] = SimpleNamespace(submodule_search_locations=None)
    assert cublaslt._wheel(12) == []


@pytest.mark.parametrize(("platform", "name"), [("linux", "libcublasLt.so.12"), ("win32", "cublasLt64_12.dll")])
def test_the_systems_names(monkeypatch, platform, name):
    monkeypatch.undo()
    monkeypatch.setattr(cublaslt, "_wheel", lambda cuda: [])
    monkeypatch.setattr(sys, "platform", platform)
    assert cublaslt.candidates(12) == [name]


def test_layout():
    """As cublasLt.h lays it out on 64-bit systems."""
    offsets = {name: getattr(Heuristic, name).offset for name, *_ in Heuristic._fields_}
    assert offsets == {"algorithm": 0, "workspace": 64, "state": 72, "waves": 76, "reserved": 80}
    assert ctypes.sizeof(Heuristic) == 96


@pytest.mark.parametrize(("status", "unsupported"), [(15, True), (8, True), (7, False), (13, False)])
def test_errors(tmp_path, status, unsupported):
    fake = FakeProducts(tmp_path)
    binding = Binding(fake.path)
    fake.plant("cublasLtCreate", status)
    with pytest.raises(CublasLtError, match="^cublasLtCreate of cuBLASLt 12.3.1 failed: CUBLAS_STATUS_") as raised:
        binding.call("cublasLtCreate", ctypes.byref(ctypes.c_void_p()))
    there = raised.value.at("fc1")
    assert isinstance(there, MXNetError) and there.unsupported is raised.value.unsupported is unsupported
    assert str(there).startswith(f"Error in operator fc1: {raised.value}\n")


def test_a_descriptor_that_cannot_be_made(tmp_path):
    fake = FakeProducts(tmp_path)
    fake.plant("cublasLtMatmulPreferenceCreate", 3)
    with pytest.raises(CublasLtError, match="cublasLtMatmulPreferenceCreate"):
        Descriptor(Binding(fake.path), "MatmulPreference")
    assert fake.count("cublasLtMatmulPreferenceDestroy") == 0


def test_nothing_is_loaded_before_it_is_needed():
    code = "import sys, hybridgpu as mx; mx.nd.ones(2).asnumpy(); print([m for m in sys.modules if 'cublas' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
