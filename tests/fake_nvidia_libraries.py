# SPDX-License-Identifier: Apache-2.0
"""Libraries of NVIDIA's for the emulated GPU: C++ that the host's compiler builds, behind hybridgpu's own bindings."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from emulated import on_stream

from hybridgpu.backends.cpu.toolchain import find_toolchain
from hybridgpu.cache.disk_cache import default_store

_copies = itertools.count()


@lru_cache
def built(source: Path, *options: str) -> bytes | None:
    """The library of a source, None where there is no compiler."""
    toolchain = find_toolchain(default_store())
    if toolchain is None:
        return None
    command = [*toolchain.command, "-std=c++17", "-O2", "-shared", "-fPIC", "-pthread", *options]
    with tempfile.TemporaryDirectory(prefix="hybridgpu-stand-in-") as folder:
        out = Path(folder, "library.so")
        done = subprocess.run([*command, str(source), "-o", str(out)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return out.read_bytes()


class FakeLibrary:
    """A library of its own: counters start at 0, nothing is planted. Subclasses say what it stands for.

    Attributes:
        name: of the library, for people and its file.
        source: its text, which defines ``fake_count`` and the other functions that are used here.
        binding: path -> hybridgpu's binding.
        path: the file, for ``binding``.
        finds: how often it was looked for.
    """

    name: str
    source: Path
    binding: Any

    def __init__(self, folder: Path, *options: str) -> None:
        code = built(self.source, *options)
        if code is None:
            pytest.skip(f"the stand-in for {self.name} needs a C++ compiler: none was found")
        self.path = str(folder / f"lib{self.name}{next(_copies)}.so")
        Path(self.path).write_bytes(code)
        self.library = ctypes.CDLL(self.path)
        for function in ("fake_count", "fake_algorithm", "fake_alive"):
            getattr(self.library, function).restype = ctypes.c_long
        self.library.fake_stream.restype = ctypes.c_size_t
        self.library.fake_plant.argtypes = (ctypes.c_char_p, ctypes.c_long)
        self.library.fake_on_stream(on_stream)
        self.finds = 0

    def in_wheel(self, folder: Path, file: str) -> str:
        """The folder of libraries of a wheel of NVIDIA's, with this one in it under the name ``file``."""
        place = folder / "lib"
        place.mkdir()
        (place / file).write_bytes(Path(self.path).read_bytes())
        return str(place)

    def find(self, cuda: int) -> Any:
        """In place of the binding module's ``find``."""
        self.finds += 1
        return type(self).binding(self.path)

    def count(self, name: str) -> int:
        """Calls of a function."""
        return int(self.library.fake_count(name.encode()))

    def plant(self, name: str, value: int) -> None:
        """Let a function return a status, or turn one of the stand-in's knobs."""
        self.library.fake_plant(name.encode(), value)

    @property
    def algorithm(self) -> int:
        """That of the last call that computed something."""
        return int(self.library.fake_algorithm())

    @property
    def stream(self) -> int:
        """That of the last call that computed something."""
        return int(self.library.fake_stream())

    @property
    def descriptors(self) -> int:
        """Those that were made and not destroyed."""
        return int(self.library.fake_alive())
