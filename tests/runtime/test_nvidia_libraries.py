# SPDX-License-Identifier: Apache-2.0
"""In which order NVIDIA's libraries are looked for, and that one which may not be needed is not loaded."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest
from cuda_on_cpu.toolchain import compiler as cxx

from hybridgpu.backends.cuda import cublaslt, cudnn, nvidia_wheels
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.backends.cuda.cublaslt_dot import ProductLibrary
from hybridgpu.backends.cuda.cudnn_conv import ConvolutionLibrary
from hybridgpu.backends.library import Libraries

NAME = "libhybridgpu-of-tests.so.9"


@pytest.mark.skipif(sys.platform == "win32", reason="sonames are ELF's")
def test_what_the_process_has_comes_first(tmp_path):
    wheel, elsewhere = tmp_path / "wheel", tmp_path / "elsewhere"
    for folder in (wheel, elsewhere):
        folder.mkdir()
        command = [cxx(), "-shared", "-fPIC", "-x", "c++", "/dev/null", f"-Wl,-soname,{NAME}", "-o", str(folder / NAME)]
        subprocess.run(command, check=True)
    names = [NAME, "libhybridgpu-of-tests.so.8"]
    in_wheel = str(wheel / NAME)
    assert not nvidia_wheels.in_this_process(NAME)
    assert nvidia_wheels.places(names, [str(tmp_path), str(wheel)]) == [in_wheel, *names]
    held = ctypes.CDLL(str(elsewhere / NAME))  # as another package would have loaded it
    assert nvidia_wheels.in_this_process(NAME) and held
    assert nvidia_wheels.places(names, [str(wheel)]) == [NAME, in_wheel, names[1]]


class Place:
    """A device that says its CUDA version and nothing else."""

    xp = None

    def __init__(self, cuda):
        self.cuda = cuda

    def cuda_version(self):
        return self.cuda


LIBRARIES = {
    "cuDNN": (ConvolutionLibrary, cudnn, "conv_bias_act", "libcudnn.so.9", "HYBRIDGPU_CUDNN"),
    "cuBLASLt": (ProductLibrary, cublaslt, "gemm_bias", "libcublasLt.so.13", "HYBRIDGPU_CUBLASLT"),
}


@pytest.mark.skipif(sys.platform == "win32", reason="libraries have other names there")
@pytest.mark.parametrize("which", LIBRARIES)
def test_an_installed_library_is_not_loaded_to_be_offered(which, tmp_path, monkeypatch):
    make, module, primitive, name, setting = LIBRARIES[which]
    monkeypatch.delenv(setting, raising=False)
    monkeypatch.setattr(nvidia_wheels, "in_this_process", lambda name: False)
    monkeypatch.setattr(module, "_wheel", lambda *cuda: [str(tmp_path)])
    (tmp_path / name).write_bytes(b"loading this fails")
    library = make(Place(13))
    assert library.supports(primitive) and library._found is None
    assert "does not load" in library.binding  # the first step that wants it loads it
    assert not library.supports(primitive)
    monkeypatch.setenv(setting, "0")
    assert not make(Place(13)).supports(primitive)
    monkeypatch.setenv(setting, "1")
    (tmp_path / name).unlink()
    monkeypatch.setattr(module, "places", lambda names, folders: [])
    absent = make(Place(13))  # no wheel: then only looking for it tells
    assert not absent.supports(primitive) and isinstance(absent._found, str)


def test_a_backend_loads_no_library(tmp_path, monkeypatch):
    from emulated import EmulatedDriver

    monkeypatch.delenv("HYBRIDGPU_CUDNN", raising=False)
    monkeypatch.delenv("HYBRIDGPU_CUBLASLT", raising=False)
    for _, module, _, name, _ in LIBRARIES.values():
        monkeypatch.setattr(module, "_wheel", lambda *cuda: [str(tmp_path)])
        (tmp_path / name).write_bytes(b"loading this fails")
    convolutions, products = ConvolutionLibrary(Place(13)), ProductLibrary(Place(13))
    backend = CudaBackend(EmulatedDriver(), None, lambda a: 0, Libraries(convolutions, products))
    assert backend.target.library_convolutions and backend.target.library_epilogues
    assert convolutions._found is None and products._found is None
