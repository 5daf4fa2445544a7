# SPDX-License-Identifier: Apache-2.0
"""Launching a kernel: arguments into bytes, the call, faults into exceptions."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .buffer import Buffer, Pointer
from .faults import FAULTS, BadLaunch, KernelFault
from .native import (
    LAUNCH_PARAMS,
    MAX_TRAFFIC_ROWS,
    REPORT,
    REPORT_BYTES,
    TRACE_ROW,
    TRAFFIC_ROW_BYTES,
    runtime,
)
from .report import Access, Report

if TYPE_CHECKING:
    from .module import Module

__all__ = ["Kernel"]

Argument = Buffer | Pointer | np.generic | bytes | None

_ORDERS = {"forward": 0, "reverse": 1, "shuffle": 2}
_RACES_OFF, _RACES_IN_BLOCK, _RACES_IN_GRID = 0, 1, 2
_ARGUMENT_ALIGNMENT = 16
_MAX_PARAMS = 256
_TRACE_ROWS = 4096

# what a parameter's letter and size (see include/coc/glue.h) take, and struct's letter for it
_SCALARS: dict[tuple[str, int], tuple[type[np.generic], str]] = {
    ("b", 1): (np.bool_, "?"),
    ("i", 1): (np.int8, "b"),
    ("i", 2): (np.int16, "h"),
    ("i", 4): (np.int32, "i"),
    ("i", 8): (np.int64, "q"),
    ("u", 1): (np.uint8, "B"),
    ("u", 2): (np.uint16, "H"),
    ("u", 4): (np.uint32, "I"),
    ("u", 8): (np.uint64, "Q"),
    ("f", 4): (np.float32, "f"),
    ("f", 8): (np.float64, "d"),
}
_report_room = ctypes.create_string_buffer(REPORT_BYTES + MAX_TRAFFIC_ROWS * TRAFFIC_ROW_BYTES)
_report_view = memoryview(_report_room).cast("B")
_report_at = ctypes.addressof(_report_room)
_report_lock = threading.Lock()  # the room is one for all threads


class Kernel:
    """One kernel of a Module."""

    def __init__(self, module: Module, index: int) -> None:
        self.module = module
        description = module.loaded.description["kernels"][index]
        self.name: str = description["name"]
        self.max_threads: int | None = description["max_threads"]
        self.cluster: tuple[int, int, int] = tuple(description["cluster"] or (1, 1, 1))
        library = module.loaded.library
        kinds, sizes = ctypes.create_string_buffer(_MAX_PARAMS), (ctypes.c_int * _MAX_PARAMS)()
        count = getattr(library, f"coc_signature_{index}")(kinds, sizes)
        self.params = [(chr(kinds.raw[i]), sizes[i]) for i in range(count)]
        names = [p["name"] for p in description["params"]]
        restrict = [p["restrict"] for p in description["params"]]
        if len(names) != count:  # another overload, or the parser missed something
            names, restrict = [""] * count, [False] * count
        self.param_names = [n or f"parameter {i}" for i, n in enumerate(names)]
        self._lay_out()
        unsigneds = ctypes.c_uint * max(1, count)
        self._handle = runtime().coc_kernel_new(
            module.loaded.handle,
            ctypes.cast(getattr(library, f"coc_entry_{index}"), ctypes.c_void_p),
            count,
            unsigneds(*sizes[:count]),
            unsigneds(*self._offsets),
            kinds,
            (ctypes.c_ubyte * max(1, count))(*restrict),
            (ctypes.c_char_p * max(1, count))(*[n.encode() for n in self.param_names]),
        )

    def _lay_out(self) -> None:
        """Chooses where each argument's bytes go, and how to pack them."""
        self._offsets: list[int] = []
        self._types: list[type | None] = []
        form, at = "<", 0
        for kind, size in self.params:
            self._offsets.append(at)
            scalar, letter = _SCALARS.get((kind, size), (None, f"{size}s"))
            self._types.append(scalar)
            room = -(-size // _ARGUMENT_ALIGNMENT) * _ARGUMENT_ALIGNMENT
            form += ("Q" if kind in "pP" else letter) + f"{room - size}x"
            at += room
        self._packer = struct.Struct(form)

    # ------------------------------------------------------------------------------- arguments
    def _pack(self, args: Sequence[Argument]) -> bytes:
        """The arguments' bytes. Raises BadLaunch where one has not the parameter's type."""
        if len(args) != len(self.params):
            raise BadLaunch(f"{self.name} takes {len(self.params)} arguments, {len(args)} given")
        values: list[object] = []
        for i, (arg, wanted) in enumerate(zip(args, self._types, strict=True)):
            kind = type(arg)
            if kind is wanted:
                values.append(arg)
            elif kind is Buffer and self.params[i][0] in "pP" and arg.ptr is not None:
                values.append(arg.ptr)
            else:
                values.append(self._convert(i, arg))
        return self._packer.pack(*values)

    def _convert(self, i: int, arg: Argument) -> object:
        kind, size = self.params[i]
        what = f"argument {i} ({self.param_names[i]}) of {self.name}"
        if isinstance(arg, Buffer) and arg.ptr is None:
            raise BadLaunch(f"{what}: buffer {arg.name!r} has been freed")
        if isinstance(arg, (Buffer, Pointer)) and kind in "pP":
            return arg.ptr if isinstance(arg, Buffer) else int(arg)
        if arg is None and kind in "pP":
            return 0
        if isinstance(arg, (bytes, np.void)) and kind == "s" and len(bytes(arg)) == size:
            return bytes(arg)
        if isinstance(arg, np.generic):
            same = arg.dtype.kind == kind and arg.dtype.itemsize == size
            if same and kind in "iufb":
                return arg
            if kind == "s" and arg.dtype.itemsize == size:  # __half, float2 for complex64
                return arg.tobytes()
        elif not isinstance(arg, (Buffer, Pointer, bytes)):
            raise BadLaunch(f"{what}: pass a Buffer or a NumPy scalar, not {type(arg).__name__}")
        given = getattr(arg, "dtype", type(arg).__name__)
        raise BadLaunch(f"{what}: the kernel wants kind {kind!r} of {size} bytes, got {given}")

    # ---------------------------------------------------------------------------------- launch
    def __call__(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Argument],
        shared_mem: int = 0,
        order: str = "forward",
        seed: int = 0,
        cooperative: bool = False,
        cluster: int | Sequence[int] | None = None,
        timeout: float = 20.0,
        *,
        races: bool | str = True,
        uninit: bool = True,
        reach: Sequence[Buffer | Pointer] = (),
        trace_warps: int = 0,
        stack_bytes: int = 65536,
    ) -> Report:
        """Runs the kernel to its end. Raises the KernelFault of the first defect.

        shared_mem: bytes of dynamic shared memory. order: 'forward', 'reverse' or 'shuffle' (by
        seed), the order in which blocks, warps and threads run. cooperative: all blocks live at
        once and may use grid barriers. cluster: blocks per cluster, each cluster's live at once.
        timeout: seconds of CPU time, 0 for none. races: True, False, or 'block' for those within
        a block only. uninit: whether reading what nothing has written is a fault. reach: buffers
        that are reached by pointers in memory rather than by an argument. trace_warps: how many
        warps of the first block to record for Report.accesses. stack_bytes: a thread's stack.
        """
        threads = _dims(block)
        if self.max_threads and threads[0] * threads[1] * threads[2] > self.max_threads:
            raise BadLaunch(
                f"{self.name}: block {threads} has more than the {self.max_threads} threads of its __launch_bounds__"
            )
        if order not in _ORDERS:
            raise ValueError(f"order is forward, reverse or shuffle, not {order!r}")
        level = _RACES_IN_BLOCK if races == "block" else _RACES_IN_GRID if races else _RACES_OFF
        params = LAUNCH_PARAMS.pack(
            *_dims(grid),
            *threads,
            *(self.cluster if cluster is None else _dims(cluster)),
            shared_mem,
            _ORDERS[order],
            seed & 0xFFFFFFFF,
            level,
            uninit,
            cooperative,
            trace_warps,
            stack_bytes,
            int(timeout * 1000),
        )
        packed = self._pack(args)
        pointers = None
        if reach:
            addresses = [r.ptr if isinstance(r, Buffer) else int(r) for r in reach]
            pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        with _report_lock:
            fault = runtime().coc_launch(self._handle, packed, len(packed), pointers, len(reach), params, _report_at)
            _, line, pc, other_pc, *figures, rows = REPORT.unpack_from(_report_view)
            rows_end = REPORT_BYTES + rows * TRAFFIC_ROW_BYTES
            report = Report(*figures, traffic_rows=bytes(_report_view[REPORT_BYTES:rows_end]))
            if trace_warps and not fault:
                report.accesses = self._accesses()
            message = bytes(_report_view[REPORT.size : REPORT_BYTES]) if fault else b""
        if fault:
            raise self._fault(FAULTS[fault], message, line, pc, other_pc, report)
        return report

    def _fault(
        self,
        kind: type[KernelFault],
        raw: bytes,
        line: int,
        pc: int,
        other_pc: int,
        report: Report,
    ) -> KernelFault:
        message = f"{self.name}: " + raw.split(b"\0")[0].decode(errors="replace")
        loaded = self.module.loaded
        frames = loaded.frames(pc)
        found = line or loaded.line(pc)
        if other := loaded.line(other_pc):
            message += f" (the other access: line {other})"
        text = self.module.source.splitlines()
        for frame in frames:
            if not frame.startswith("kernel.cu:"):
                message += f"\n  {frame}"
        if found and found <= len(text):
            message += f"\n  kernel.cu:{found}: {text[found - 1].strip()}"
        fault = kind(message)
        fault.line, fault.where, fault.report = found, tuple(frames), report
        return fault

    def _accesses(self) -> list[Access]:
        room = ctypes.create_string_buffer(_TRACE_ROWS * TRACE_ROW.size)
        count = min(_TRACE_ROWS, runtime().coc_trace(ctypes.addressof(room), _TRACE_ROWS))
        found = []
        for i in range(count):
            pc, space, write, size, requests, sectors, ideal, conflict, _ = TRACE_ROW.unpack_from(
                room, i * TRACE_ROW.size
            )
            line = self.module.loaded.line(pc)
            where = "shared" if space else "global"
            found.append(Access(line, where, bool(write), size, requests, sectors, ideal, conflict))
        return sorted(found, key=lambda a: (a.line or 0, a.write))


def _dims(value: int | Sequence[int]) -> tuple[int, int, int]:
    """Three dimensions from one to three. Raises BadLaunch unless each fits 32 bits."""
    if type(value) is int and 0 <= value < 1 << 32:  # the usual case, and launches are many
        return value, 1, 1
    given = (value,) if isinstance(value, (int, np.integer)) else tuple(value)
    if not 1 <= len(given) <= 3 or any(not 0 <= v < 1 << 32 for v in given):
        raise BadLaunch(f"one to three dimensions, each from 1, not {value!r}")
    return (*map(int, given), 1, 1)[:3]
