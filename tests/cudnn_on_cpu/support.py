# SPDX-License-Identifier: Apache-2.0
"""A cuDNN for the emulated GPU: fake_cudnn.cpp, built by the host's compiler, behind hybridgpu's own binding."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybridgpu.backends.cpu.toolchain import find_toolchain
from hybridgpu.backends.cuda.cudnn import Binding
from hybridgpu.store import default_store

SOURCE = Path(__file__).with_name("fake_cudnn.cpp")
ELEMENTS = SOURCE.with_name("elements.h")
_copies = itertools.count()


@lru_cache
def built(*options: str) -> bytes | None:
    """The library, None where there is no compiler."""
    toolchain = find_toolchain(default_store())
    if toolchain is None:
        return None
    # what it is built from and by names the file, so that the workers of one run build it once
    command = [*toolchain.command, "-std=c++17", "-O2", "-shared", "-fPIC", "-pthread", *options]
    name = hashlib.sha256(SOURCE.read_bytes() + ELEMENTS.read_bytes() + repr(command).encode()).hexdigest()[:16]
    with tempfile.TemporaryDirectory(prefix="hybridgpu-cudnn-") as folder:
        out = Path(folder, f"{name}.so")
        done = subprocess.run([*command, str(SOURCE), "-o", str(out)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return out.read_bytes()


class Fake:
    """A library of its own: counters start at 0, nothing is planted.

    Attributes:
        path: the file, for ``Binding``.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        code = built(*options)
        if code is None:
            pytest.skip("cuDNN's stand-in needs a C++ compiler: none was found")
        self.path = str(folder / f"libcudnn{next(_copies)}.so")
        Path(self.path).write_bytes(code)
        self.library = ctypes.CDLL(self.path)
        self.library.fake_count.restype = self.library.fake_algorithm.restype = ctypes.c_long
        self.library.fake_alive.restype = ctypes.c_long
        self.library.fake_stream.restype = ctypes.c_size_t
        self.library.fake_plant.argtypes = (ctypes.c_char_p, ctypes.c_long)
        self.finds = 0

    def find(self, cuda: int) -> Binding | str:
        """In place of ``cudnn.find``."""
        self.finds += 1
        return Binding(self.path)

    def count(self, name: str) -> int:
        """Calls of a function."""
        return int(self.library.fake_count(name.encode()))

    def plant(self, name: str, value: int) -> None:
        """Let a function return a status, or turn one of the stand-in's knobs."""
        self.library.fake_plant(name.encode(), value)

    @property
    def runs(self) -> dict[str, int]:
        """Convolutions computed, by kind."""
        kinds = ("Forward", "BackwardData", "BackwardFilter")
        return {k: n for k in kinds if (n := self.count(f"cudnnConvolution{k}"))}

    @property
    def algorithm(self) -> int:
        """That of the last convolution."""
        return int(self.library.fake_algorithm())

    @property
    def stream(self) -> int:
        """That of the last convolution."""
        return int(self.library.fake_stream())

    @property
    def descriptors(self) -> int:
        """Those that were made and not destroyed."""
        return int(self.library.fake_alive())


class Memory:
    """A device that is the host; it stands in for ``CupyDevice``."""

    xp = np

    def __init__(self) -> None:
        self.current_stream, self.entered = 0, 0

    def address(self, array: Any) -> int:
        return int(array.__array_interface__["data"][0])

    def stream(self) -> int:
        return self.current_stream

    def current(self) -> Memory:
        return self

    def __enter__(self) -> None:
        self.entered += 1

    def __exit__(self, *error: object) -> None:
        self.entered -= 1

    def cuda_version(self) -> int:
        return 12
