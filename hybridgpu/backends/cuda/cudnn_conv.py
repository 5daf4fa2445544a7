# SPDX-License-Identifier: Apache-2.0
"""Convolutions by cuDNN: one prepared object a step, chosen algorithm and descriptors included.

Of cuDNN's algorithms only those are taken whose every result is one sum over its window in a fixed
order: products of matrices, implicit or not. Transforms (FFT, Winograd) spread an infinity over
neighbours and round relative to the largest element of a tile; those that add atomically give other
bits every time. float32 is multiplied as float32, or as TF32 where that was allowed; half and bfloat16 accumulate in
float32; both as everywhere else in hybridgpu.

``conv_bias_act`` is cuDNN's fused call: a bias, an array and relu are computed on the result before it is written, in the
type of accumulation. Where no algorithm of cuDNN's does that, it computes the convolution alone, and the array module
the rest; ``explain`` says which.

There is one handle a device, which lives as long as the process. It is used under a lock, since a
handle carries its stream. What is started under the lock is asynchronous, so threads wait for each
other for microseconds only. Descriptors are set once; of half precision the mathematics follows the
algorithm, under the lock. Workspaces come from the array module's pool on the current stream; those of programs' steps
whose operands lie as cuDNN wants them, and which are started by addresses alone, are part of the arena.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...compiler.primitives.conv import apply_epilogue
from ...core.dtypes import f32
from ..library import TF32, AddressCall, LibraryRequest, Prepared, Unsupported
from . import cudnn
from .ctypes_binding import SUCCESS, DeviceScope, FailureCache, LazyLibrary
from .cudnn import Binding, CudnnError, Descriptor, Performance, find, installed, ints
from .cudnn_layouts import ConvLayout, data_layout, filter_layout, layout_of

__all__ = ["ConvolutionLibrary"]

WORKSPACE = 1 << 30  #: bytes an algorithm may use, MXNet's default for ``workspace``
_ALIGNMENT = 16  #: bytes: cuDNN is given arrays that begin at multiples of them
_FALLBACK = "unfolding + cuBLAS"
_PRECOMPUTED = 1  #: the algorithm that cuDNN's fused call may have without relu

_ANY = (cudnn.DEFAULT_MATH, cudnn.TENSOR_OP_MATH, cudnn.FMA_MATH)
_PLAIN = (cudnn.DEFAULT_MATH, cudnn.FMA_MATH)


class _Arithmetic(NamedTuple):
    """The arithmetic of an element type.

    Attributes:
        type, sums: cudnnDataType_t of elements and of sums.
        mathematics: cudnnMathType_t that is asked for.
        allowed: those an algorithm may have.
        follows: the algorithm has that which cuDNN chose for it; else the first one stays.
    """

    type: int
    sums: int
    mathematics: int
    allowed: tuple[int, ...]
    follows: bool = False


_TYPES = {
    "f16": _Arithmetic(cudnn.HALF, cudnn.FLOAT, cudnn.TENSOR_OP_MATH, _ANY, True),
    "bf16": _Arithmetic(cudnn.BFLOAT16, cudnn.FLOAT, cudnn.DEFAULT_MATH, _ANY, True),
    "f32": _Arithmetic(cudnn.FLOAT, cudnn.FLOAT, cudnn.FMA_MATH, _PLAIN),
    "f64": _Arithmetic(cudnn.DOUBLE, cudnn.DOUBLE, cudnn.DEFAULT_MATH, _PLAIN),
}
#: the default mathematics of float32, which cuDNN documents as TF32; none that converts to half precision
_TF32 = _Arithmetic(cudnn.FLOAT, cudnn.FLOAT, cudnn.DEFAULT_MATH, _ANY, True)


_Candidate = tuple[int, int, int]  #: algorithm, mathematics, bytes of workspace


class _Kind(NamedTuple):
    """One of cuDNN's three computations."""

    function: str  #: the part of the names of its functions
    words: str
    algorithms: dict[int, str]  #: those that are taken


_KINDS = {
    "forward": _Kind(
        "Forward",
        "forward",
        {0: "implicit GEMM", 1: "implicit GEMM with precomputed indices", 2: "GEMM", 3: "direct"},
    ),
    "data": _Kind("BackwardData", "gradient of the operand", {1: "implicit GEMM"}),
    "filter": _Kind("BackwardFilter", "gradient of the weight", {1: "implicit GEMM"}),
}


class ConvolutionLibrary(LazyLibrary[Binding]):
    """Computes what convolutions are by cuDNN where it is installed and has an algorithm; a :class:`~..library.Library`.

    Args:
        place: the device.
        finder: CUDA's major version -> the binding, or why there is none.
    """

    def __init__(self, place: DeviceScope, finder: Callable[[int], Binding | str] = find) -> None:
        super().__init__(place, finder, "cudnnCreate", installed if finder is find else None)

    def prepare(self, request: LibraryRequest) -> Prepared | None:
        """See :class:`~..library.Library`.

        Raises:
            CudnnError: cuDNN is there, but does not work.
        """
        primitive, inputs, params, out, operator, part, tf32 = request
        if primitive not in ("conv", "conv_bias_act", "conv_backward_data", "conv_backward_filter"):
            return None
        binding = self.binding
        if isinstance(binding, str):
            return Unsupported(f"{_FALLBACK} ({binding})")
        if out.dtype.short not in _TYPES:
            return Unsupported(f"{_FALLBACK} (cuDNN has no {out.dtype.short})")
        x, w = inputs[:2]
        derivative = {"conv_backward_data": data_layout, "conv_backward_filter": filter_layout}.get(primitive)
        if derivative is not None:
            layout = derivative(x.shape, w.shape, out.shape, params)
        else:
            layout = layout_of(x.shape, w.shape, out.shape, params, out.dtype.is_half)
        if isinstance(layout, str):
            return Unsupported(f"{_FALLBACK} ({layout})")
        try:
            if primitive == "conv_bias_act" and layout.kind != "forward":
                return Unsupported(f"{_FALLBACK} (cuDNN adds nothing to a {_KINDS[layout.kind].words})")
            added = ("bias", "array")[: len(inputs) - 2]
            arithmetic = _TF32 if tf32 and out.dtype is f32 else _TYPES[out.dtype.short]
            whole: Callable[..., _Convolution] = partial(_Convolution, self, binding, layout, arithmetic, operator)
            if primitive == "conv_bias_act":
                whole = partial(_Fused, self, binding, layout, arithmetic, operator, added, params["relu"])
            if part is None:
                return whole()
            # an array would have to lie so, too
            lies = part.alignment % _ALIGNMENT == 0 and len(added) < 2
            strides = layout.strides(part.strides, out.shape[0]) if lies else None
            if strides is not None and (convolution := whole(strides=strides)).at_once:
                return convolution
            return whole(copied=True)
        except CudnnError as e:
            raise e.at(operator) from None

    def supports(self, primitive: str) -> bool:
        """See :class:`~..library.Library`."""
        return primitive == "conv_bias_act" and self.expected()

    def run(self, binding: Binding, name: str, *arguments: Any) -> None:
        """Call a function whose first argument is the handle, on the current stream of the device."""
        with self.lock:
            handle = self.handle(binding)
            binding.call("cudnnSetStream", handle, self.place.stream())
            binding.call(name, handle, *arguments)


class _Convolution:
    """One convolution with its descriptors and what is left of the algorithms that could compute it.

    Args:
        strides: of the result in elements, None if it is packed.
        copied: the result is copied to where it belongs.

    Attributes:
        note: what computes it, for ``explain``.
    """

    def __init__(
        self,
        library: ConvolutionLibrary,
        binding: Binding,
        layout: ConvLayout,
        arithmetic: _Arithmetic,
        operator: str,
        strides: Sequence[int] | None = None,
        copied: bool = False,
    ) -> None:
        self._strides, self._copied = strides, copied
        self._library, self._binding, self._layout, self._operator = library, binding, layout, operator
        self._arithmetic, type, accumulated = arithmetic, arithmetic.type, arithmetic.sums
        scalar: Any = ctypes.c_double if accumulated == cudnn.DOUBLE else ctypes.c_float
        self._one, self._zero = scalar(1), scalar(0)
        self._bits, self._narrow = type == cudnn.BFLOAT16, type in (cudnn.HALF, cudnn.BFLOAT16)
        self.itemsize = 2 if self._narrow else ctypes.sizeof(scalar)
        self._x = self._tensor(type, layout.x, strides if layout.kind == "data" else None)
        self._y = self._tensor(type, layout.y, strides if layout.kind == "forward" else None)
        self._w = Descriptor(binding, "Filter")
        binding.call("cudnnSetFilterNdDescriptor", self._w, type, cudnn.NCHW, len(layout.w), ints(layout.w))
        self._conv = Descriptor(binding, "Convolution")
        binding.call(
            "cudnnSetConvolutionNdDescriptor",
            self._conv,
            len(layout.pad),
            ints(layout.pad),
            ints(layout.stride),
            ints(layout.dilate),
            cudnn.CROSS_CORRELATION,
            accumulated,
        )
        binding.call("cudnnSetConvolutionGroupCount", self._conv, layout.groups)
        self._mathematics = arithmetic.mathematics
        binding.call("cudnnSetConvolutionMathType", self._conv, self._mathematics)
        self._descriptors: tuple[Descriptor, ...] = {
            "forward": (self._x, self._w, self._conv, self._y),
            "data": (self._w, self._y, self._conv, self._x),
            "filter": (self._x, self._y, self._conv, self._w),
        }[layout.kind]
        with library.place.current():
            self._candidates = self._supported()

    def _tensor(self, type: int, shape: Sequence[int], strides: Sequence[int] | None = None) -> Descriptor:
        descriptor = Descriptor(self._binding, "Tensor")
        strides = strides or [prod(shape[k + 1 :]) for k in range(len(shape))]
        self._binding.call("cudnnSetTensorNdDescriptor", descriptor, type, len(shape), ints(shape), ints(strides))
        return descriptor

    @property
    def note(self) -> str:
        candidates = self._candidates
        if not candidates:
            return f"{_FALLBACK} (cuDNN {self._binding.version} has no algorithm for it)"
        return self._description(candidates[0][0])

    def _description(self, algorithm: int) -> str:
        """The description of what computes it, if that is ``algorithm``."""
        kind, padded = _KINDS[self._layout.kind], ", padded first" if self._layout.copies else ""
        words = f"cuDNN {self._binding.version}: {kind.words}, {kind.algorithms[algorithm]}{padded}"
        return f"{words}{f', {TF32}' * (self._arithmetic is _TF32)}{', copied then' * self._copied}"

    def _supported(self) -> list[_Candidate]:
        """Algorithms that could be used, the fastest by cuDNN's estimate first."""
        kind = _KINDS[self._layout.kind]
        results, num_results = (Performance * 16)(), ctypes.c_int()
        try:
            self._library.run(
                self._binding,
                f"cudnnGetConvolution{kind.function}Algorithm_v7",
                *self._descriptors,
                len(results),
                ctypes.byref(num_results),
                results,
            )
        except CudnnError as e:
            if e.unsupported:
                return []
            raise
        candidates = []
        for p in results[: num_results.value]:
            fits = (
                p.algorithm in kind.algorithms
                and p.determinism == cudnn.DETERMINISTIC
                and p.math in self._arithmetic.allowed
            )
            if p.status != SUCCESS or not fits:
                continue
            nbytes = self._workspace(p.algorithm, p.math)
            if nbytes is not None and nbytes <= WORKSPACE:
                candidates.append((p.algorithm, p.math, nbytes))
        return candidates

    def _workspace(self, algorithm: int, mathematics: int) -> int | None:
        """Bytes that an algorithm needs, None if it cannot compute this."""
        nbytes = ctypes.c_size_t()
        self._use(mathematics)
        try:
            self._library.run(
                self._binding,
                f"cudnnGetConvolution{_KINDS[self._layout.kind].function}WorkspaceSize",
                *self._descriptors,
                algorithm,
                ctypes.byref(nbytes),
            )
        except CudnnError as e:
            if e.unsupported:
                return None
            raise
        return nbytes.value

    def _use(self, mathematics: int) -> None:
        """Take the mathematics that cuDNN chose for the algorithm, where that is followed."""
        if self._arithmetic.follows and mathematics != self._mathematics:
            self._binding.call("cudnnSetConvolutionMathType", self._conv, mathematics)
            self._mathematics = mathematics

    def __call__(self, operands: Sequence[Any], out: Any) -> bool:
        """Compute into ``out`` (C-contiguous or prepared for); False, and nothing done, if no algorithm can.

        Raises:
            CudnnError: cuDNN failed.
        """
        place, layout = self._library.place, self._layout
        if not self._candidates:
            return False
        operands = operands[:2]
        if self._bits:  # copies move bits; array modules need know nothing of bfloat16
            operands, out = [a.view(np.uint16) for a in operands], out.view(np.uint16)
        try:
            with place.current():
                first, second = (self._aligned(a) for a in layout.operands(place.xp, *operands))
                turned = layout.kind == "filter" and not layout.native
                result = place.xp.empty(layout.result, out.dtype) if turned else self._room(out)
                if not self._start(place, place.address(first), place.address(second), place.address(result)):
                    return False
                if turned and self._copied:
                    whole = place.xp.empty(out.shape, out.dtype)
                    layout.copy_back(result, whole)
                    out[...] = whole
                elif turned:
                    layout.copy_back(result, out)
                elif result is not out:
                    out[...] = result.reshape(out.shape)
        except CudnnError as e:
            raise e.at(self._operator) from None
        return True

    def address_call(self, shapes: Sequence[tuple[int, ...]], transposed: Sequence[bool]) -> AddressCall | None:
        """See :class:`~..library.Prepared`."""
        as_they_lie = self._layout.native or self._layout.kind == "forward"
        if not as_they_lie or self._layout.copies or self._copied or any(transposed):
            return None
        candidates = self.at_once
        return _Direct(self, candidates[0]) if candidates else None

    @property
    def at_once(self) -> list[_Candidate]:
        """The function that computes all of it in one call."""
        return self._candidates

    @property
    def function(self) -> str:
        """The name of that call."""
        return f"cudnnConvolution{_KINDS[self._layout.kind].function}"

    def behind(self, operands: Sequence[Any], out: Any) -> tuple[Any, ...]:
        """The call's arguments behind those that all such functions have."""
        return ctypes.byref(self._zero), self._descriptors[-1].pointer, out

    def _meet(self, a: Any, b: Any) -> bool:
        """Whether two contiguous arrays share memory."""
        here, there = (self._library.place.address(x) for x in (a, b))
        return bool(here < there + b.nbytes and there < here + a.nbytes)

    def _room(self, out: Any) -> Any:
        """The memory in which the result is computed: ``out``, or some of its own from which it is copied."""
        if self._copied or self._library.place.address(out) % _ALIGNMENT:
            return self._library.place.xp.empty(self._layout.result, out.dtype)
        return out

    def _aligned(self, a: Any) -> Any:
        return a if self._library.place.address(a) % _ALIGNMENT == 0 else a.copy()

    def _start(self, place: DeviceScope, first: int, second: int, result: int) -> bool:
        """Start the first algorithm that takes this; the others are forgotten."""
        name = f"cudnnConvolution{_KINDS[self._layout.kind].function}"
        while candidates := self._candidates:  # another thread may shorten the list
            if self._taken(place, candidates[0], name, first, second, _Convolution.behind(self, (), result)):
                return True
            # unfolding in the end
            self._candidates = [c for c in self._candidates if c != candidates[0]]
        return False

    def _taken(
        self, place: DeviceScope, candidate: _Candidate, name: str, first: int, second: int, rest: Sequence[Any]
    ) -> bool:
        """Start an algorithm; False if cuDNN does not take it, which it says before it starts anything.

        Args:
            name: of the function.
            rest: its arguments behind those that all such functions have.
        """
        algorithm, mathematics, nbytes = candidate
        one, two, conv, _ = self._descriptors
        work = place.xp.empty(nbytes, np.uint8) if nbytes else None
        address = place.address(work) if work is not None else None
        operands = (one, first, two, second, conv)
        with self._library.lock:
            self._use(mathematics)
            try:
                self._library.run(
                    self._binding, name, ctypes.byref(self._one), *operands, algorithm, address, nbytes, *rest
                )
            except CudnnError as e:
                if not e.unsupported:
                    raise
                return False
        return True


class _Fused(_Convolution):
    """A convolution with what follows it.

    Args:
        added: 'bias' and perhaps 'array': what its operands behind the weight are.
        relu: whether relu is taken of the sum.
    """

    def __init__(
        self,
        library: ConvolutionLibrary,
        binding: Binding,
        layout: ConvLayout,
        arithmetic: _Arithmetic,
        operator: str,
        added: Sequence[str],
        relu: bool,
        strides: Sequence[int] | None = None,
        copied: bool = False,
    ) -> None:
        super().__init__(library, binding, layout, arithmetic, operator, strides, copied)
        self._added, self._relu = added, relu
        self._bias = self._tensor(arithmetic.type, (1, layout.y[1], *(1,) * (len(layout.y) - 2)))
        self._activation = Descriptor(binding, "Activation")
        mode = cudnn.RELU if relu else cudnn.IDENTITY
        binding.call("cudnnSetActivationDescriptor", self._activation, mode, cudnn.NAN_TO_ZERO, 0.0)
        self._fused = [c for c in self._candidates if relu or c[0] == _PRECOMPUTED]

    @property
    def note(self) -> str:
        words = [*self._added, *(["relu"] if self._relu else [])]
        follows = f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
        if self._fused:
            return f"{self._description(self._fused[0][0])}, {follows} in its call"
        if not self._candidates:
            return super().note
        return f"{super().note}; {follows} by the array module (cuDNN has no fused call for it)"

    @property
    def at_once(self) -> list[_Candidate]:
        return self._fused

    @property
    def function(self) -> str:
        return "cudnnConvolutionBiasActivationForward"

    def behind(self, operands: Sequence[Any], out: Any) -> tuple[Any, ...]:
        bias, *arrays = operands[2:]
        # without an array the result stands in its place, and is not read
        array, scale = (arrays[0], self._one) if arrays else (out, self._zero)
        y = self._descriptors[-1].pointer
        return ctypes.byref(scale), y, array, self._bias.pointer, bias, self._activation.pointer, y, out

    def __call__(self, operands: Sequence[Any], out: Any) -> bool:
        """See :meth:`_Convolution.__call__`."""
        if self._fused:
            try:
                with self._library.place.current():
                    if self._at_once(operands, out):
                        return True
            except CudnnError as e:
                raise e.at(self._operator) from None
        if not super().__call__(operands, out):
            return False
        with self._library.place.current():
            xp = self._library.place.xp
            y, added = out, operands[2:]
            if self._narrow:
                y, added = out.astype(xp.float32), [a.astype(xp.float32) for a in added]
            apply_epilogue(xp, y, added, self._relu)
            if y is not out:
                out[...] = y
        return True

    def _at_once(self, operands: Sequence[Any], out: Any) -> bool:
        """Compute all of it by cuDNN's fused call; False, and nothing done, if no algorithm can."""
        place = self._library.place
        if self._bits:
            operands, out = [a.view(np.uint16) for a in operands], out.view(np.uint16)
        first, second = (self._aligned(a) for a in self._layout.operands(place.xp, *operands[:2]))
        added = [self._aligned(place.xp.ascontiguousarray(a)) for a in operands[2:]]
        if len(added) > 1 and self._meet(first, added[1]):  # which cuDNN forbids
            added[1] = added[1].copy()
        result = self._room(out)
        at = [place.address(a) for a in (first, second, *added)]
        rest = self.behind(at, place.address(result))
        while fused := self._fused:  # another thread may shorten the list
            if self._taken(place, fused[0], self.function, at[0], at[1], rest):
                if result is not out:
                    out[...] = result.reshape(out.shape)
                return True
            self._fused = [c for c in self._fused if c != fused[0]]
        return False


class _Direct:
    """A convolution of a program's step: see :class:`~..library.AddressCall`."""

    def __init__(self, convolution: _Convolution, candidate: _Candidate) -> None:
        self._convolution, self._candidate = convolution, candidate
        self.workspace = candidate[2]

    def starter(self, operands: Sequence[Any], out: Any, work: Any) -> Callable[[int], bool]:
        """See :class:`~..library.AddressCall`."""
        convolution, (algorithm, mathematics, nbytes) = self._convolution, self._candidate
        binding, library, name = convolution._binding, convolution._library, convolution.function
        one, two, conv, _ = (d.pointer for d in convolution._descriptors)
        with library.place.current():
            handle = library.handle(binding)
        on_stream = partial(binding.function("cudnnSetStream"), handle)
        first, second = operands[:2][::-1] if convolution._layout.kind == "data" else operands[:2]
        read = ctypes.byref(convolution._one), one, first, two, second
        run = partial(
            binding.function(name), handle, *read, conv, algorithm, work, nbytes, *convolution.behind(operands, out)
        )
        array = operands[3] if len(operands) > 3 else None
        distance = (
            prod(convolution._layout.x) * convolution.itemsize,
            prod(convolution._layout.y) * convolution.itemsize,
        )
        outcomes = FailureCache(binding, convolution._operator)

        def start(stream: int) -> bool:
            if outcomes.refused:
                return False
            if array is not None and -distance[1] < array.value - operands[0].value < distance[0]:
                return False  # they share memory, which cuDNN forbids
            with library.lock.raw:
                convolution._use(mathematics)
                called = "cudnnSetStream"
                status = on_stream(stream)
                if status == SUCCESS:
                    called, status = name, run()
            return status == SUCCESS or outcomes.failed(called, status, start, stream)

        return start
