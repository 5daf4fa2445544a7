# SPDX-License-Identifier: Apache-2.0
"""The runtime library: building it, its functions, and the structures it shares with Python.

Calls hold the interpreter's lock, so launches and buffers need no lock of their own.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import struct

from .toolchain import HERE, build_folder, cache_dir, compiler, compiler_version, one_at_a_time, run

__all__ = ["LAUNCH_PARAMS", "REPORT", "REPORT_BYTES", "TRACE_ROW", "TRAFFIC_ROW_BYTES", "runtime"]

_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-pthread")
# Kernel libraries are linked with nothing: they find libm through this one.
_LIBRARIES = ("-Wl,--no-as-needed", "-lm")

# As in runtime/state.hpp. LaunchParams: grid, block, cluster, then the single values.
LAUNCH_PARAMS = struct.Struct("<9I9I")
# Report: fault, line, pc, other_pc, the figures of report.FIGURES, the number of traffic rows.
REPORT = struct.Struct("<2I2Q20QQ")
MESSAGE_BYTES = 1024
REPORT_BYTES = REPORT.size + MESSAGE_BYTES
TRAFFIC_ROW_BYTES = 96
MAX_TRAFFIC_ROWS = 256
# TraceRow: pc, space, write, size, requests, sectors, ideal, conflict, lanes
TRACE_ROW = struct.Struct("<Q8I")

_POINTER, _SIZE, _INT, _UNSIGNED = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint
_FUNCTIONS: dict[str, tuple[object, list[object]]] = {
    "coc_alloc": (_POINTER, [_SIZE, _INT, ctypes.c_char_p]),
    "coc_register": (_INT, [_POINTER, _SIZE, ctypes.c_char_p]),
    "coc_free": (None, [_POINTER]),
    "coc_live_regions": (ctypes.c_uint64, []),
    "coc_write": (_INT, [_POINTER, _SIZE, _POINTER, _SIZE]),
    "coc_forget": (_INT, [_POINTER, _SIZE, _SIZE]),
    "coc_unwritten": (ctypes.c_uint64, [_POINTER, _SIZE, _SIZE]),
    "coc_copy": (_INT, [_POINTER, _SIZE, _POINTER, _SIZE, _SIZE]),
    "coc_touched": (None, [_POINTER, _SIZE, _POINTER]),
    "coc_set_clock": (None, [_UNSIGNED]),
    "coc_trace": (_UNSIGNED, [_POINTER, _UNSIGNED]),
    "coc_module_new": (
        _POINTER,
        [_POINTER, _UNSIGNED, _UNSIGNED, _INT, _INT, _POINTER, _UNSIGNED, _POINTER, _POINTER],
    ),
    "coc_kernel_new": (
        _POINTER,
        [_POINTER, _POINTER, _UNSIGNED, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER],
    ),
    "coc_launch": (
        _INT,
        [_POINTER, ctypes.c_char_p, _UNSIGNED, _POINTER, _UNSIGNED, ctypes.c_char_p, _POINTER],
    ),
}


@functools.cache
def runtime() -> ctypes.PyDLL:
    """The runtime library, built on first use. Raises CompileError or ToolMissing."""
    sources = sorted((HERE / "runtime").iterdir())
    digest = hashlib.sha256(" ".join([compiler_version(), *_FLAGS]).encode())
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    library = cache_dir() / f"runtime-{digest.hexdigest()[:24]}.so"
    if not library.exists():
        with one_at_a_time("runtime"), build_folder() as folder:
            if not library.exists():
                out = folder / "out.so"
                run([compiler(), *_FLAGS, HERE / "runtime" / "runtime.cpp", "-o", out, *_LIBRARIES])
                os.replace(out, library)
    lib = ctypes.PyDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments
    return lib
