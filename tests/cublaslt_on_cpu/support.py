# SPDX-License-Identifier: Apache-2.0
"""A cuBLASLt for the emulated GPU: fake_cublaslt.cpp, built by the host's compiler, behind hybridgpu's own binding."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

import pytest
from cudnn_on_cpu.support import ELEMENTS

from hybridgpu.backends.cpu.toolchain import find_toolchain
from hybridgpu.backends.cuda.cublaslt import Binding
from hybridgpu.store import default_store

SOURCE = Path(__file__).with_name("fake_cublaslt.cpp")
PLAIN, SPLIT, SPLIT_IN_OUTPUT_TYPE = 1, 2, 4  #: its algorithms
_copies = itertools.count()


@lru_cache
def built(*options: str) -> bytes | None:
    """The library, None where there is no compiler."""
    toolchain = find_toolchain(default_store())
    if toolchain is None:
        return None
    command = [*toolchain.command, "-std=c++17", "-O2", "-shared", "-fPIC", "-pthread", *options]
    name = hashlib.sha256(SOURCE.read_bytes() + ELEMENTS.read_bytes() + repr(command).encode()).hexdigest()[:16]
    with tempfile.TemporaryDirectory(prefix="hybridgpu-cublaslt-") as folder:
        out = Path(folder, f"{name}.so")
        done = subprocess.run([*command, str(SOURCE), "-o", str(out)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return out.read_bytes()


class FakeProducts:
    """A library of its own: counters start at 0, nothing is planted.

    Attributes:
        path: the file, for ``Binding``.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        code = built(*options)
        if code is None:
            pytest.skip("cuBLASLt's stand-in needs a C++ compiler: none was found")
        self.path = str(folder / f"libcublasLt{next(_copies)}.so")
        Path(self.path).write_bytes(code)
        self.library = ctypes.CDLL(self.path)
        for name in ("fake_count", "fake_algorithm", "fake_alive"):
            getattr(self.library, name).restype = ctypes.c_long
        self.library.fake_stream.restype = ctypes.c_size_t
        self.library.fake_plant.argtypes = (ctypes.c_char_p, ctypes.c_long)
        self.finds = 0

    def find(self, cuda: int) -> Binding | str:
        """In place of ``cublaslt.find``."""
        self.finds += 1
        return Binding(self.path)

    def count(self, name: str) -> int:
        """Calls of a function."""
        return int(self.library.fake_count(name.encode()))

    def plant(self, name: str, value: int) -> None:
        """Let a function return a status, or turn one of the stand-in's knobs."""
        self.library.fake_plant(name.encode(), value)

    @property
    def products(self) -> int:
        """How many were computed or refused."""
        return self.count("cublasLtMatmul")

    @property
    def algorithm(self) -> int:
        """That of the last product."""
        return int(self.library.fake_algorithm())

    @property
    def stream(self) -> int:
        """That of the last product."""
        return int(self.library.fake_stream())

    @property
    def descriptors(self) -> int:
        """Those that were made and not destroyed."""
        return int(self.library.fake_alive())
