# SPDX-License-Identifier: Apache-2.0
"""The real CuPy over a CUDA that computes nothing (null_cuda.cpp), in this process, before CuPy is imported.

Everything but the results of kernels is CuPy's own: which types and arguments it takes, what it returns, which kernels it
compiles (with NVRTC, for sm_90) and starts. CuPy's wheels contain the CUDA run-time, so each of its functions that is replaced
gets a jump to ours at its beginning; the driver is a library that CuPy finds loaded.
"""

from __future__ import annotations

import ctypes
import importlib.util
import struct
from pathlib import Path

_JUMP = 12  #: bytes of: mov rax, address; jmp rax
_PAGE = 4096
_ALL = 7  #: read, write, execute


class NullCuda:
    """The library."""

    def __init__(self, path: str, devices: int) -> None:
        self._library = ctypes.CDLL(path)
        self._library.null_devices(devices)
        for name in ("null_started", "null_refused", "null_fail"):
            getattr(self._library, name).restype = ctypes.c_longlong
        import cupy_backends.cuda.api.runtime as runtime  # alone: nothing has asked for devices yet

        spec = importlib.util.find_spec(runtime.__name__)
        assert spec is not None and spec.origin is not None
        self.replaced = self._replace(spec.origin)

    def launches(self) -> list[list[str]]:
        """Names of the kernels that were started since the last call, each with its arguments."""
        return [line.split() for line in self._text("null_started")]

    def started(self) -> list[str]:
        """Their names alone."""
        return [name for name, *_ in self.launches()]

    def refused(self) -> list[str]:
        """What was refused since the last call."""
        return self._text("null_refused")

    def fail(self, function: str = "", after: int = 0, count: int = 1 << 40, status: int = 700) -> int:
        """Have calls of a function (as null_cuda.cpp names it) fail, behind ``after`` that do not; without one all is well
        again, errors of kernels included. Returns how many of the last ones did not come.
        """
        return int(
            self._library.null_fail(function.encode(), ctypes.c_longlong(after), ctypes.c_longlong(count), status)
        )

    def capacity(self, nbytes: int) -> None:
        """How much memory there is."""
        self._library.null_capacity(ctypes.c_longlong(nbytes))

    def _text(self, name: str) -> list[str]:
        room = ctypes.create_string_buffer(1 << 22)
        length = getattr(self._library, name)(room, ctypes.c_longlong(len(room)))
        assert length < len(room), "ask more often"
        return room.value.decode().splitlines()

    def _replace(self, path: str) -> int:
        libc = ctypes.CDLL(None)
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        base = ctypes.c_uint64.from_address(ctypes.CDLL(path)._handle).value  # a link_map begins with it
        count = 0
        for name, place in functions(Path(path).read_bytes()).items():
            ours = getattr(self._library, f"null_{name}", None) if name.startswith("cuda") else None
            if ours is not None:
                at = base + place
                assert libc.mprotect(at & -_PAGE, 2 * _PAGE, _ALL) == 0
                target = ctypes.cast(ours, ctypes.c_void_p).value
                ctypes.memmove(at, b"\x48\xb8" + struct.pack("<Q", target) + b"\xff\xe0", _JUMP)
                count += 1
        return count


def functions(elf: bytes) -> dict[str, int]:
    """Name -> offset of every function of a 64-bit library, those that it does not export included."""
    (start,), (size, count) = struct.unpack_from("<Q", elf, 40), struct.unpack_from("<HH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, start + k * size) for k in range(count)]
    found = {}
    for section in sections:
        if section[1] != 2:  # a table of symbols
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, info, _, _, value, _ = struct.unpack_from("<IBBHQQ", elf, at)
            if info & 15 == 2 and value:
                found[elf[names + name : elf.index(b"\0", names + name)].decode("latin-1")] = value
    return found
