# SPDX-License-Identifier: Apache-2.0
"""Library steps: computed on whole arrays by NumPy, CuPy, cuBLASLt or cuDNN."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd, prod
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..compiler.devices.cpu import CpuConstants
from ..compiler.ir.graph import Node
from ..compiler.ir.types import TensorType, tensor_type
from ..compiler.primitives import TABLE
from ..compiler.primitives.loop import run_loop
from ..compiler.program import Buffer, LibraryStep, Program
from ..compiler.reference import evaluate_stored
from ..core.dtypes import f32, from_short
from ..core.settings import tf32

__all__ = [
    "TF32",
    "AddressCall",
    "Libraries",
    "Library",
    "LibraryRequest",
    "Prepared",
    "ResultSlice",
    "Unsupported",
    "as_function",
    "prepare_step",
    "run_host_step",
]

TF32 = "float32 as TF32"  #: what notes say of products whose operands are rounded
_ALIGNMENT = 16  #: bytes of which addresses of operands and results are multiples
_LINE = CpuConstants.line_bytes
_FEW_SETS = CpuConstants.aliased_bytes  #: lines whose distances are multiples share a sixteenth of a first-level cache
_MANY, _TALL = 1 << 14, 32  #: elements, and rows, of a copy that is worth several calls of NumPy


class AddressCall(Protocol):
    """A step of a program that a library starts by addresses alone, with everything else chosen before.

    Attributes:
        workspace: bytes of memory that it needs while it runs.
    """

    workspace: int

    def starter(self, operands: Sequence[Any], out: Any, work: Any) -> Callable[[int], bool]:
        """A function of a stream that starts it; False, with nothing done, if the library cannot after all.

        Args:
            operands, out, work: ``ctypes.c_void_p`` that hold the addresses by then: multiples of 16, of ``work`` 256,
                of a part what it was prepared for.
        """


class ResultSlice(NamedTuple):
    """The layout of a result that is a slice of a larger array.

    Attributes:
        strides: in elements, the last one 1.
        alignment: bytes of which its address is a multiple, 16 at most.
    """

    strides: tuple[int, ...]
    alignment: int


class LibraryRequest(NamedTuple):
    """A use of a primitive that a library is asked for.

    Attributes:
        primitive, inputs, params, out: its name, the types of its operands, its parameters, the type of its result.
        operator: name for errors.
        result_slice: the layout of the result, if it is not in memory of its own.
        tf32: operands of float32 may be rounded to TF32.
    """

    primitive: str
    inputs: Sequence[TensorType]
    params: Mapping[str, Any]
    out: TensorType
    operator: str
    result_slice: ResultSlice | None = None
    tf32: bool = False


class Prepared(Protocol):
    """One use of a primitive that a device's library computes."""

    @property
    def note(self) -> str:
        """The library that computes it and why, for people."""

    def __call__(self, operands: Sequence[Any], out: Any) -> bool:
        """Compute into ``out``, C-contiguous or the part that it was prepared for; False, with nothing done, if the library
        cannot after all.
        """

    def address_call(self, shapes: Sequence[tuple[int, ...]], transposed: Sequence[bool]) -> AddressCall | None:
        """The same for operands that lie in memory row after row; None if it takes more than the library's call.

        Args:
            shapes, transposed: how operands lie, as in :class:`~hybridgpu.compiler.program.LibraryStep`.
        """


class Unsupported(NamedTuple):
    """A use that the library leaves to the primitive's own evaluation."""

    note: str

    def __call__(self, operands: Sequence[Any], out: Any) -> bool:
        return False

    def address_call(self, shapes: Sequence[tuple[int, ...]], transposed: Sequence[bool]) -> None:
        return None


class Library(Protocol):
    """Functions that a device computes better than its array module does. Programs and eager calls ask the same one."""

    def prepare(self, request: LibraryRequest) -> Prepared | None:
        """Prepare a primitive for given types, once for all its calls; None if the library knows nothing of it."""

    def supports(self, primitive: str) -> bool:
        """True if programs gain by containing a primitive that only a library computes well."""


class Libraries:
    """Several libraries as one: the first that knows a primitive prepares it.

    Args:
        tf32: whether the device has TF32; where it has not, operands are never said to be rounded.
    """

    def __init__(self, *libraries: Library, tf32: bool = True) -> None:
        self._all, self._tf32 = libraries, tf32

    def prepare(self, request: LibraryRequest) -> Prepared | None:
        """See :class:`Library`."""
        request = request._replace(tf32=request.tf32 and self._tf32)
        for library in self._all:
            prepared = library.prepare(request)
            if prepared is not None:
                return prepared
        return None

    def supports(self, primitive: str) -> bool:
        """See :class:`Library`."""
        return any(library.supports(primitive) for library in self._all)


def as_function(library: Library | None, xp: Any) -> Callable[..., Any] | None:
    """The hook of :class:`~hybridgpu.compiler.reference.Interpreter` that asks a device's library, None without one."""
    if library is None:
        return None

    def evaluation(node: Node, inputs: Sequence[TensorType], params: Mapping[str, Any], out: TensorType) -> Any:
        operator = node.prov.name or node.prov.op if node.prov else node.prim.name
        request = LibraryRequest(node.prim.name, inputs, params, out, operator)
        prepared = library.prepare(request)
        if prepared is None or isinstance(prepared, Unsupported):
            return None
        rounding: Prepared | None = None

        def run(_: Any, operands: Sequence[Any], params: Mapping[str, Any], out: TensorType) -> Any:
            nonlocal rounding
            way = prepared
            if out.dtype is f32 and tf32():
                if rounding is None:
                    rounding = library.prepare(request._replace(tf32=True))
                way = rounding or prepared
            y = xp.empty(out.shape, out.dtype.np)
            return y if way(operands, y) else node.prim.evaluate(xp, operands, params, out)

        return run

    return evaluation


def prepare_step(library: Library | None, step: LibraryStep, program: Program) -> Prepared | None:
    """The library's preparation for a step of a program."""
    if library is None or step.body is not None:
        return None
    inputs = [
        tensor_type(_swapped(step, shape) if transposed else shape, from_short(program.buffers[b].dtype))
        for b, shape, transposed in zip(step.inputs, step.input_shapes, step.transposed, strict=True)
    ]
    out = program.buffers[step.output]
    type = tensor_type(out.shape, from_short(out.dtype))
    result_slice = None
    if out.parent >= 0:
        whole = program.buffers[out.parent].shape
        result_slice = ResultSlice(tuple(prod(whole[k + 1 :]) for k in range(len(whole))), gcd(out.offset, _ALIGNMENT))
    operator = step.operator[1] or step.operator[0]
    request = LibraryRequest(step.primitive, inputs, step.params, type, operator, result_slice, program.tf32)
    return library.prepare(request)


def _axes(step: LibraryStep) -> tuple[int, int]:
    """The axes that are swapped in memory, where two are."""
    return (0, 1) if step.primitive == "conv" else (-1, -2)


def _swapped(step: LibraryStep, shape: tuple[int, ...]) -> tuple[int, ...]:
    swapped = list(shape)
    a, b = _axes(step)
    swapped[a], swapped[b] = swapped[b], swapped[a]
    return tuple(swapped)


def run_host_step(
    step: LibraryStep,
    array: Callable[[int, tuple[int, ...]], Any],
    program: Program,
    xp: Any,
    body: Callable[[list[Any], list[Any]], None] | None = None,
    prepared: Prepared | None = None,
) -> None:
    """Compute a primitive.

    Args:
        array: (buffer number, shape) -> array over the buffer's memory.
        xp: NumPy or CuPy.
        body: runs one step of a loop: (inputs, outputs).
        prepared: of the device's library, if that knows the primitive.
    """
    b = program.buffers[step.output]
    out = array(step.output, b.shape) if b.parent < 0 else _part(b, program.buffers[b.parent], array)
    operands = []
    for index, shape, transposed in zip(step.inputs, step.input_shapes, step.transposed, strict=True):
        x = array(index, shape)
        operands.append(x.swapaxes(*_axes(step)) if transposed else x)
    if prepared is not None and prepared(operands, out):
        return
    if step.primitive == "copy" and "strides" in step.params:
        _copy(xp, out, _seen(operands[0], b.shape, step.params))
        return
    with np.errstate(all="ignore"):
        if body is not None:
            assert step.body is not None
            types = [tensor_type(shape, from_short(short)) for shape, short in step.body.outputs]
            run_loop(xp, operands, step.params, types, out, body)
            return
        if step.primitive == "dot" and b.dtype in ("f32", "f64"):
            xp.matmul(*operands, out=out)
            return
        params = {k: from_short(v) if k == "dtype" else v for k, v in step.params.items()}
        type = tensor_type(b.shape, from_short(b.dtype))
        out[...] = evaluate_stored(TABLE[step.primitive], xp, operands, params, type)


def _part(b: Buffer, whole: Buffer, array: Callable[[int, tuple[int, ...]], Any]) -> Any:
    """A view of a part of a join."""
    begin = np.unravel_index(b.offset // from_short(b.dtype).size, whole.shape)
    return array(b.parent, whole.shape)[tuple(slice(int(k), int(k) + d) for k, d in zip(begin, b.shape, strict=True))]


def _copy(xp: Any, out: Any, seen: Any) -> None:
    """``out[...] = seen``, in strips that use all of the cache lines that they read.

    Neighbours of the last axis may lie in lines whose distance is a power of two, of which a cache holds few: NumPy,
    which walks along the last axis, would then read each line many times, and take three times as long.
    """
    if xp is not np or not _needs_im2col(seen):
        out[...] = seen
        return
    width = _LINE // out.itemsize
    for k in range(0, out.shape[-1], width):
        out[..., k : k + width] = seen[..., k : k + width]


def _needs_im2col(seen: Any) -> bool:
    """Whether lines along the last axis meet in a few sets of the cache, and strips are worth a call each."""
    *others, last = seen.strides or (0,)
    if last == 0 or last % _FEW_SETS or seen.itemsize not in others:
        return False
    return bool(seen.size >= _MANY and seen.size >= _TALL * seen.shape[-1])


def _seen(memory: Any, shape: tuple[int, ...], params: Mapping[str, Any]) -> Any:
    """A view of all elements of a NumPy array, ``memory``, as compiler/host_copy.py describes it."""
    size = memory.itemsize
    raw = memory.view(np.uint8)  # not every element type has a buffer
    return np.ndarray(shape, memory.dtype, raw, params["offset"] * size, [s * size for s in params["strides"]])
