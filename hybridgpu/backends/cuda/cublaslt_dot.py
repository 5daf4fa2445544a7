# SPDX-License-Identifier: Apache-2.0
"""Matrix products by cuBLASLt: one prepared object a step, with a plan for each way its operands lie in memory.

cuBLASLt's matrices are stored by columns, so the transposed product is asked for: the right operand is its A, the left
one its B, and a row of n numbers that is added to every row of the result is its bias. float32 is multiplied as
float32, or as TF32 where that was allowed; half and bfloat16 accumulate in float32, also between the parts of a sum that is shared out,
which are added in a fixed order.

There is one handle a device, which any thread may use at any time. A description is used under a lock, since it
carries the address of the bias. Workspaces come from the array module's pool on the current stream. Steps of programs,
whose operands lie as they were planned, are started by addresses alone: their descriptions belong to one thread, their
workspace to the call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...compiler.ir.types import TensorType
from ...core.dtypes import f32
from ...core.fork_safe_lock import Lock
from ..library import TF32, AddressCall, LibraryRequest, Prepared, ResultSlice, Unsupported
from . import cublaslt
from .ctypes_binding import INT_MAX, SUCCESS, DeviceScope, FailureCache, LazyLibrary
from .cublaslt import Binding, CublasLtError, Descriptor, Heuristic, find, installed

__all__ = ["ProductLibrary"]

WORKSPACE = 32 << 20  #: bytes an algorithm may use
_ALIGNMENT = 16  #: bytes; more is of no use to any algorithm
_PLANS = 8  #: ways of its operands in memory that a step remembers
_FALLBACK = "CuPy's matmul"

#: element type -> (cudaDataType_t of elements, cublasComputeType_t, cudaDataType_t of scale factors)
_TYPES = {
    "f16": (cublaslt.R_16F, cublaslt.COMPUTE_32F, cublaslt.R_32F),
    "bf16": (cublaslt.R_16BF, cublaslt.COMPUTE_32F, cublaslt.R_32F),
    "f32": (cublaslt.R_32F, cublaslt.COMPUTE_32F, cublaslt.R_32F),
    "f64": (cublaslt.R_64F, cublaslt.COMPUTE_64F, cublaslt.R_64F),
}


class Matrices(NamedTuple):
    """The layout of an operand in memory, in elements.

    Attributes:
        transposed: neighbours in memory are those along the second last axis.
        leading: from one line of neighbours to the next.
        batch: how many matrices, and from one to the next.
    """

    transposed: bool
    leading: int
    batch: tuple[int, int]


def matrices(shape: Sequence[int], strides: Sequence[int]) -> Matrices | None:
    """The layout of matrices with these strides (in elements), None if cuBLASLt cannot take them so."""
    rows, columns = shape[-2:]
    by_row, by_column = strides[-2:]
    count, step = 1, 0
    for extent, stride in zip(reversed(shape[:-2]), reversed(strides[:-2]), strict=True):
        if extent == 1:
            continue
        if count > 1 and stride != step * count:
            return None
        count, step = count * extent, step if count > 1 else stride
    if step < 0:
        return None
    if (by_column == 1 or columns == 1) and (by_row >= columns or rows == 1):
        return Matrices(False, by_row if rows > 1 else columns, (count, step))
    if (by_row == 1 or rows == 1) and (by_column >= rows or columns == 1):
        return Matrices(True, by_column if columns > 1 else rows, (count, step))
    return None


class ProductLibrary(LazyLibrary[Binding]):
    """Computes ``dot`` and ``gemm_bias`` by cuBLASLt where it is installed; a :class:`~..library.Library`.

    Args:
        place: the device.
        finder: CUDA's major version -> the binding, or why there is none.
    """

    def __init__(self, place: DeviceScope, finder: Callable[[int], Binding | str] = find) -> None:
        super().__init__(place, finder, "cublasLtCreate", installed if finder is find else None)

    def supports(self, primitive: str) -> bool:
        """See :class:`~..library.Library`."""
        return primitive == "gemm_bias" and self.expected()

    def prepare(self, request: LibraryRequest) -> Prepared | None:
        """See :class:`~..library.Library`."""
        primitive, out = request.primitive, request.out
        if primitive not in ("dot", "gemm_bias"):
            return None
        binding = self.binding
        if isinstance(binding, str):
            return Unsupported(f"{_FALLBACK} ({binding})")
        if out.dtype.short not in _TYPES:
            return Unsupported(f"{_FALLBACK} (cuBLASLt is not used for {out.dtype.name})")
        x, w = request.inputs[:2]
        if not out.size or not x.shape[-1]:
            return Unsupported(f"{_FALLBACK} (nothing is multiplied)")
        if max(*x.shape, *w.shape, out.size // (out.shape[-1] * out.shape[-2])) > INT_MAX:
            return Unsupported(f"{_FALLBACK} (more than 2^31 rows)")
        fused = ("bias", primitive == "gemm_bias"), ("relu", request.params.get("relu"))
        epilogue = tuple(name for name, there in fused if there)
        return _Product(self, binding, out, x.shape[-1], epilogue, request.operator, request.result_slice, request.tf32)


class _Plan(NamedTuple):
    """Descriptions for one way of the operands in memory, and the algorithms that could compute it, the best first."""

    product: Descriptor
    layouts: tuple[Descriptor, Descriptor, Descriptor]
    algorithms: list[Heuristic]


class _Product:
    """One product.

    Attributes:
        note: what computes it, for ``explain``.
    """

    def __init__(
        self,
        library: ProductLibrary,
        binding: Binding,
        out: TensorType,
        depth: int,
        epilogue: Sequence[str],
        name: str,
        part: ResultSlice | None = None,
        tf32: bool = False,
    ) -> None:
        self._library, self._binding, self._out, self._depth = library, binding, out, depth
        self._epilogue, self._operator = epilogue, name
        self._type, self._compute, self._scaled = _TYPES[out.dtype.short]
        self._tf32 = tf32 and out.dtype is f32
        if self._tf32:
            self._compute = cublaslt.COMPUTE_32F_FAST_TF32
        scalar: Any = ctypes.c_double if self._scaled == cublaslt.R_64F else ctypes.c_float
        self._one, self._zero = scalar(1), scalar(0)
        self._plans: dict[Any, _Plan] = {}
        self._lain: dict[Any, tuple[Matrices, Matrices]] = {}  #: by their strides, operands that need no copy
        self._lock = Lock()
        self._problem = ""
        m, n = out.shape[-2:]
        result = None if part is None else matrices(out.shape, part.strides)
        self._apart = part is not None and (result is None or result.leading > INT_MAX)
        if result is None or self._apart:
            result = Matrices(False, n, (out.size // (m * n), m * n))
        self._result, self._aligned = result, _ALIGNMENT if part is None else part.alignment

    @property
    def note(self) -> str:
        if self._problem:
            return f"{_FALLBACK} ({self._problem})"
        words = f"cuBLASLt {self._binding.version}"
        words = f"{words}, {TF32}" if self._tf32 else words
        words = f"{words}, {' and '.join(self._epilogue)} in its epilogue" if self._epilogue else words
        return f"{words}, copied then" if self._apart else words

    def __call__(self, operands: Sequence[Any], out: Any) -> bool:
        """Compute into ``out`` (C-contiguous or prepared for); False, and nothing done, if no algorithm can.

        Raises:
            CublasLtError: cuBLASLt failed.
        """
        place = self._library.place
        try:
            with place.current():
                x, w = operands[:2]
                way = x.strides, w.strides
                lain = self._lain.get(way)
                if lain is None:
                    x, left = self._laid_out(x)
                    w, right = self._laid_out(w)
                    if x is operands[0] and w is operands[1]:
                        with self._lock:
                            self._remember(self._lain, way, (left, right))
                else:
                    left, right = lain
                bias = operands[2] if "bias" in self._epilogue else None
                if bias is not None and bias.strides[-1] != bias.dtype.itemsize:
                    bias = self._copied(bias)
                result = place.xp.empty(out.shape, out.dtype) if self._apart else out
                at = [place.address(a) for a in (x, w, result, *(() if bias is None else (bias,)))]
                together = _ALIGNMENT
                for address in at:
                    together |= address
                alignment = together & -together
                with self._lock:
                    plan = self._plan(left, right, alignment)
                    started = self._start(plan, at)
                if started and result is not out:
                    bits = np.uint16 if out.dtype.itemsize == 2 else out.dtype
                    out.view(bits)[...] = result.view(bits)
                return started
        except CublasLtError as e:
            raise e.at(self._operator) from None

    def _laid_out(self, a: Any) -> tuple[Any, Matrices]:
        size = a.dtype.itemsize
        operand_layout = matrices(a.shape, [s // size for s in a.strides])
        if operand_layout is None or operand_layout.leading > INT_MAX:
            a = self._copied(a)
            operand_layout = matrices(a.shape, [s // size for s in a.strides])
            assert operand_layout is not None
        return a, operand_layout

    def _copied(self, a: Any) -> Any:
        """In row-major order; copies move bits, array modules need know nothing of bfloat16."""
        bits = a.view(np.uint16) if a.dtype.itemsize == 2 else a
        return self._library.place.xp.ascontiguousarray(bits).view(a.dtype)

    def _plan(self, left: Matrices, right: Matrices, alignment: int) -> _Plan:
        key = left, right, alignment
        plan = self._plans.get(key)
        if plan is None:
            plan = self._planned(left, right, alignment)
            self._remember(self._plans, key, plan)
        return plan

    @staticmethod
    def _remember(table: dict[Any, Any], key: Any, value: Any) -> None:
        while len(table) >= _PLANS:
            del table[next(iter(table))]
        table[key] = value

    def address_call(self, shapes: Sequence[tuple[int, ...]], transposed: Sequence[bool]) -> AddressCall | None:
        """See :class:`~..library.Prepared`.

        Raises:
            CublasLtError: cuBLASLt failed.
        """
        if self._apart:
            return None
        lain: list[Matrices] = []
        for shape, turned in zip(shapes[:2], transposed, strict=False):
            steps = [prod(shape[k + 1 :]) for k in range(len(shape))]
            if turned:
                shape, steps = (*shape[:-2], *shape[:-3:-1]), [*steps[:-2], *steps[:-3:-1]]
            operand_layout = matrices(shape, steps)
            if operand_layout is None or operand_layout.leading > INT_MAX:
                return None
            lain.append(operand_layout)
        left, right = lain
        try:
            with self._library.place.current():
                with self._lock:
                    plan = self._plan(left, right, self._aligned)
                return _Direct(self, plan, left, right) if plan.algorithms else None
        except CublasLtError as e:
            raise e.at(self._operator) from None

    def described(self, left: Matrices, right: Matrices, alignment: int) -> Descriptor:
        """A description of the product; the address of the bias is yet to be set."""
        product = Descriptor(self._binding, "MatmulDesc", self._compute, self._scaled)
        epilogue = (cublaslt.EPILOGUE_BIAS if "bias" in self._epilogue else 0) | (
            cublaslt.EPILOGUE_RELU if "relu" in self._epilogue else 0
        )
        product.set(cublaslt.EPILOGUE, cublaslt.UINT32, epilogue or cublaslt.EPILOGUE_DEFAULT)
        if "bias" in self._epilogue:  # what the heuristic judges by is its alignment
            product.set(cublaslt.BIAS_POINTER, cublaslt.POINTER_VALUE, alignment)
        for operand, attribute in ((right, cublaslt.TRANSPOSE_A), (left, cublaslt.TRANSPOSE_B)):
            product.set(attribute, cublaslt.INT32, cublaslt.OP_T if operand.transposed else cublaslt.OP_N)
        return product

    def _planned(self, left: Matrices, right: Matrices, alignment: int) -> _Plan:
        binding = self._binding
        m, n = self._out.shape[-2:]
        k = self._depth
        count = self._out.size // (m * n)
        product = self.described(left, right, alignment)
        layouts = []
        for operand, rows, columns in ((right, n, k), (left, k, m)):
            stored = (columns, rows) if operand.transposed else (rows, columns)
            layouts.append(self._layout(*stored, operand.leading, count, operand.batch[1]))
        layouts.append(self._layout(n, m, self._result.leading, count, self._result.batch[1]))
        preference = Descriptor(binding, "MatmulPreference")
        preference.set(cublaslt.MAX_WORKSPACE, cublaslt.UINT64, WORKSPACE)
        preference.set(cublaslt.REDUCTIONS, cublaslt.UINT32, cublaslt.REDUCE_IN_COMPUTE_TYPE)
        for attribute in cublaslt.ALIGNMENTS:
            preference.set(attribute, cublaslt.UINT32, alignment)
        a, b, d = layouts
        results, num_results = (Heuristic * 8)(), ctypes.c_int()
        algorithms: list[Heuristic] = []
        try:
            binding.call(
                "cublasLtMatmulAlgoGetHeuristic",
                *(self._library.handle(binding), product, a, b, d, d, preference),
                *(len(results), results, ctypes.byref(num_results)),
            )
            algorithms = [r for r in results[: num_results.value] if r.state == SUCCESS and r.workspace <= WORKSPACE]
        except CublasLtError as e:
            if not e.unsupported:
                raise
        return _Plan(product, (a, b, d), algorithms)

    def _layout(self, rows: int, columns: int, leading: int, count: int, step: int) -> Descriptor:
        layout = Descriptor(self._binding, "MatrixLayout", self._type, rows, columns, leading)
        if count > 1:
            layout.set(cublaslt.BATCH_COUNT, cublaslt.INT32, count)
            layout.set(cublaslt.BATCH_OFFSET, cublaslt.INT64, step)
        return layout

    def _start(self, plan: _Plan, at: Sequence[int]) -> bool:
        """Start the first algorithm that takes this; the others are forgotten."""
        place, (a, b, d) = self._library.place, plan.layouts
        left, right, result = at[:3]
        if len(at) > 3:
            plan.product.set(cublaslt.BIAS_POINTER, cublaslt.POINTER_VALUE, at[3])
        while plan.algorithms:
            algorithm = plan.algorithms[0]
            work = place.xp.empty(algorithm.workspace, np.uint8) if algorithm.workspace else None
            try:
                self._binding.call(
                    "cublasLtMatmul",
                    *(self._library.handle(self._binding), plan.product, ctypes.byref(self._one)),
                    *(right, a, left, b, ctypes.byref(self._zero), result, d, result, d),
                    ctypes.byref(algorithm.algorithm),
                    *(place.address(work) if work is not None else None, algorithm.workspace, place.stream()),
                )
                self._problem = ""
                return True
            except CublasLtError as e:
                if not e.unsupported:
                    raise
                del plan.algorithms[0]  # it said so before it started anything
        self._problem = f"cuBLASLt {self._binding.version} has no algorithm for it"
        return False


class _Direct:
    """A product of a program's step: see :class:`~..library.AddressCall`."""

    def __init__(self, product: _Product, plan: _Plan, left: Matrices, right: Matrices) -> None:
        self._product, self._plan, self._lain = product, plan, (left, right)
        self._algorithm = plan.algorithms[0]
        self.workspace = int(self._algorithm.workspace)

    def starter(self, operands: Sequence[Any], out: Any, work: Any) -> Callable[[int], bool]:
        """See :class:`~..library.AddressCall`."""
        product, (a, b, d), algorithm = self._product, self._plan.layouts, self._algorithm
        binding, library, name = product._binding, product._library, "cublasLtMatmul"
        left, right, *biases = operands
        bias = biases[0] if biases else None
        # one that carries an address belongs to this starter, which one thread uses at a time
        described = self._plan.product if bias is None else product.described(*self._lain, _ALIGNMENT)
        with library.place.current():
            handle = library.handle(binding)
        one, zero = ctypes.byref(product._one), ctypes.byref(product._zero)
        matrices = (right, a.pointer, left, b.pointer, zero, out, d.pointer, out, d.pointer)
        chosen = ctypes.byref(algorithm.algorithm), work, self.workspace
        run = partial(binding.function(name), handle, described.pointer, one, *matrices, *chosen)
        outcomes, set_at = FailureCache(binding, product._operator), 0

        def start(stream: int) -> bool:
            nonlocal set_at
            if outcomes.refused:
                return False
            if bias is not None and bias.value != set_at:
                described.set(cublaslt.BIAS_POINTER, cublaslt.POINTER_VALUE, bias.value)
                set_at = bias.value
            status = run(stream)
            return status == SUCCESS or outcomes.failed(name, status, start, stream)

        return start
