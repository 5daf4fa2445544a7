# SPDX-License-Identifier: Apache-2.0
"""Finding cuDNN and binding its functions: wheels, the system, versions, and what is said when there is none."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from types import SimpleNamespace

import pytest
from cudnn_on_cpu.support import Fake

from hybridgpu.backends.cuda import cudnn
from hybridgpu.backends.cuda.cudnn import Binding, CudnnError, Descriptor, Performance, find
from hybridgpu.base import MXNetError


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch):
    """A machine without cuDNN, whatever this one has."""
    monkeypatch.delenv("HYBRIDGPU_CUDNN", raising=False)
    monkeypatch.setattr(cudnn, "_wheel", list)
    monkeypatch.setattr(cudnn, "_names", lambda major: [f"libcudnn-of-nobody.so.{major}"])


def test_none():
    assert find(12) == "cuDNN is not installed: pip install nvidia-cudnn-cu12"
    assert find(13) == "cuDNN is not installed: pip install nvidia-cudnn-cu13"


def wheel(monkeypatch, tmp_path, *options):
    """NVIDIA's wheel with the stand-in in it."""
    folder = Fake(tmp_path, *options).in_wheel(tmp_path, "libcudnn-of-nobody.so.9")
    monkeypatch.setattr(cudnn, "_wheel", lambda: [folder])


@pytest.mark.long_table
@pytest.mark.parametrize(
    ("options", "cuda", "said"),
    [
        ((), 12, None),
        (("-DFAKE_MAJOR=8",), 12, None),
        (("-DFAKE_MAJOR=7",), 12, "cuDNN 7.9.7 is not known here, only 8 and 9"),
        (
            (),
            13,
            "cuDNN 9.12.3 is built for CUDA 12, the arrays use CUDA 13: pip uninstall nvidia-cudnn-cu12; "
            "pip install nvidia-cudnn-cu13",
        ),
    ],
)
def test_versions(monkeypatch, tmp_path, options, cuda, said):
    wheel(monkeypatch, tmp_path, *options)
    found = find(cuda)
    if said is None:
        assert isinstance(found, Binding) and found.cuda == cuda
        assert found.version == ("8.9.7" if options else "9.12.3") and found.major == (8 if options else 9)
    else:
        assert found == said


def test_a_library_that_lacks_a_function(monkeypatch, tmp_path):
    wheel(monkeypatch, tmp_path, "-DFAKE_LACKS")
    said = find(12)
    assert said.startswith("libcudnn-of-nobody.so.9 is no cuDNN that is known here: ")
    assert "cudnnConvolutionForward" in said


def test_a_file_that_does_not_load(monkeypatch, tmp_path):
    (tmp_path / "libcudnn-of-nobody.so.9").write_bytes(b"no library")
    monkeypatch.setattr(cudnn, "_wheel", lambda: [str(tmp_path)])
    assert find(12).startswith("cuDNN is installed, but does not load: ")


def test_it_can_be_left_out(monkeypatch, tmp_path):
    wheel(monkeypatch, tmp_path)
    monkeypatch.setenv("HYBRIDGPU_CUDNN", "0")
    assert find(12) == "HYBRIDGPU_CUDNN=0"
    monkeypatch.setenv("HYBRIDGPU_CUDNN", "1")
    assert isinstance(find(12), Binding)


@pytest.mark.parametrize(
    ("spec", "folders"),
    [
        (None, []),
        (SimpleNamespace(submodule_search_locations=None), []),
        (SimpleNamespace(submodule_search_locations=["A"]), ["A/lib", "A/bin"]),
    ],
)
def test_the_wheels_folders(monkeypatch, spec, folders):
    monkeypatch.undo()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    assert [f.replace("\\", "/") for f in cudnn._wheel()] == folders

    def absent(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("importlib.util.find_spec", absent)
    assert cudnn._wheel() == []


@pytest.mark.parametrize(
    ("platform", "names"),
    [("linux", ["libcudnn.so.9", "libcudnn.so.8"]), ("win32", ["cudnn64_9.dll", "cudnn64_8.dll"])],
)
def test_the_systems_names(monkeypatch, platform, names):
    monkeypatch.undo()
    monkeypatch.setattr(cudnn, "_wheel", list)
    monkeypatch.setattr(sys, "platform", platform)
    assert cudnn.candidates() == names


def test_layout():
    """As cuDNN's header lays it out on 64-bit systems."""
    offsets = {name: getattr(Performance, name).offset for name, *_ in Performance._fields_}
    assert offsets == {
        "algorithm": 0, "status": 4, "time": 8, "memory": 16, "determinism": 24, "math": 28, "reserved": 32
    }  # fmt: skip
    assert ctypes.sizeof(Performance) == 48


@pytest.mark.parametrize(
    ("major", "status", "unsupported"),
    [(9, 3000, True), (9, 3999, True), (9, 2000, False), (9, 5000, False), (8, 9, True), (8, 3, False)],
)
def test_errors(tmp_path, major, status, unsupported):
    fake = Fake(tmp_path, f"-DFAKE_MAJOR={major}")
    binding = Binding(fake.path)
    fake.plant("cudnnCreate", status)
    with pytest.raises(CudnnError, match=f"^cudnnCreate of cuDNN {binding.version} failed: CUDNN_STATUS_") as raised:
        binding.call("cudnnCreate", ctypes.byref(ctypes.c_void_p()))
    assert raised.value.unsupported is unsupported
    assert str(raised.value).endswith(" (planted)") is (major == 9)  # cuDNN 8 cannot say more
    there = raised.value.at("conv3")
    assert isinstance(there, MXNetError) and there.unsupported is unsupported
    assert str(there).startswith(f"Error in operator conv3: {raised.value}\n")


def test_a_descriptor_that_cannot_be_made(tmp_path):
    fake = Fake(tmp_path)
    fake.plant("cudnnCreateTensorDescriptor", 4002)
    with pytest.raises(CudnnError, match="cudnnCreateTensorDescriptor"):
        Descriptor(Binding(fake.path), "Tensor")
    assert fake.count("cudnnDestroyTensorDescriptor") == 0


def test_nothing_is_loaded_before_it_is_needed():
    code = "import sys, hybridgpu as mx; mx.nd.ones(2).asnumpy(); print([m for m in sys.modules if 'cudnn' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
