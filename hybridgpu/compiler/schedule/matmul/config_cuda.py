# SPDX-License-Identifier: Apache-2.0
"""Configuration of a matrix product on a GPU, by a model of what it costs, and when a library is faster.

The forms are the functions of ``kernels/matmul_cuda.h``. *dots* and *axpy* serve few rows: every thread reads 16 bytes
of the right operand at once (element by element if these are apart in every direction, as those of one column of a
larger matrix), used for all rows, in as many blocks as keep memory busy. *tiles* pass both operands
through shared memory. *elements* gives tiny products of a batch a thread an element. Numbers here steer choices; they
are no promises.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd, prod
from typing import Any

from ....core.dataclass import dataclass
from ....core.dtypes import DType
from ...cost import gpu_kernel_seconds, library_product_seconds, multiply_adds_per_cycle, seconds
from ...ir.graph import Node
from ...passes.materialize import as_strided, blas_layout
from ...size_buckets import length_bucket, next_power_of_two
from ...target import Target
from ..runtime_args import reduces_outermost

__all__ = [
    "DotShape",
    "MatmulConfig",
    "axpy_words",
    "candidate_configs",
    "choose_config",
    "dot_shape",
    "kernel_and_library_seconds",
    "library_seconds",
    "loads_along_k",
    "loads_per_element",
]

_MAX_SHARED_BYTES = 40 * 1024  #: bytes of shared memory that a block takes, at most
_SMALL_RIGHT_BYTES = 1 << 20  #: bytes of a right operand that is read at once
_TYPICAL_BATCH = 4096  #: matrices of a batch, for a choice that does not depend on their number
_MAX_ROWS = 16  #: rows that a block computes at once
_MAX_SUM_BYTES = 256  #: bytes of registers for sums
_MAX_THREAD_TERMS = 64  #: terms of a sum that one thread computes
_MIN_LENGTH = 16  #: terms of the shortest sums that count, where one form is for many lengths
#: (rows and columns of a patch, of a thread's part of it, groups, steps of a stage, share of the arithmetic)
_TILES = ((16, 2, 4, 128, 0.2), (32, 4, 4, 128, 0.4), (64, 4, 1, 32, 0.5))


@dataclass(frozen=True)
class DotShape:
    """A product of (batch, m, k) and (batch, k, n).

    Attributes:
        left, right: strides of each operand's last two axes in memory, in elements; of those with one element 0.
        left_unit, right_unit: elements that one access may read along the axis whose stride is 1 (1 without one).
    """

    dtype: DType
    batch: int
    m: int
    k: int
    n: int
    left: tuple[int, int]
    right: tuple[int, int]
    left_unit: int
    right_unit: int
    batched: bool = False  #: there are axes of a batch, even if with one element
    dynamic_k: bool = False  #: how many terms a sum has is an argument; ``k`` stands for all of their class
    max_k: int = 0  #: terms of the longest sum that the kernel is for, if that is not ``k``

    @property
    def longest_k(self) -> int:
        return self.max_k or self.k

    @property
    def right_is_small(self) -> bool:
        """True if reading the right operand again costs next to nothing."""
        return self.longest_k * self.n * self.dtype.size <= _SMALL_RIGHT_BYTES

    @property
    def work(self) -> int:
        return self.batch * self.m * self.n * self.k

    @property
    def nbytes(self) -> int:
        return self.batch * (self.m * self.k + self.k * self.n + self.m * self.n) * self.dtype.size

    @property
    def compute_size(self) -> int:
        """Bytes of a sum."""
        return 4 if self.dtype.is_half else self.dtype.size


@dataclass(frozen=True)
class MatmulConfig:
    """A way to compute it.

    Attributes:
        name: of the function: dots, axpy, tiles or product_element.
        rows, columns: of the patch that a block computes; 0 for an element a thread.
        threads: of a block.
        layers: partial sums of an element.
        words: of shared memory, in sums.
        arguments: of the function, without the type of sums.
        vectors: elements that one access reads of the left and of the right operand.
        seconds: what it takes.
    """

    name: str
    rows: int
    columns: int
    threads: int
    layers: int
    words: int
    arguments: tuple[int | bool, ...]
    vectors: tuple[int, int]
    seconds: float
    order: tuple[int, ...] = ()  #: forms of one name and order add the terms of a sum in the same order


def loads_along_k(form: MatmulConfig) -> tuple[bool, bool]:
    """For each operand whether a thread loads neighbours along the sum, rather than along rows or columns."""
    if form.name == "tiles":
        return bool(form.arguments[7]), bool(form.arguments[8])
    return True, form.name != "axpy"


def loads_per_element(form: MatmulConfig, dot: DotShape) -> tuple[float, float]:
    """The number of times that threads load each element of either operand."""
    if not form.rows:
        return dot.n, dot.m
    down = -(-dot.m // form.rows)
    across = {"dots": form.arguments[1], "axpy": form.vectors[1], "tiles": form.columns}[form.name]
    return -(-dot.n // across), down


def dot_shape(node: Node) -> DotShape:
    """The figures of the dot ``node``; operands that are no strided views are as they will be copied."""
    m, k = node.inputs[0].shape[-2:]
    n = node.shape[-1]
    left, left_unit = _layout(node.inputs[0])
    right, right_unit = _layout(node.inputs[1])
    dynamic = node.ndim == 2 and reduces_outermost(left, right, k) and right[0] != 1
    return DotShape(
        node.dtype,
        prod(node.shape[:-2]),
        m,
        length_bucket(k) if dynamic else k,
        n,
        left,
        right,
        left_unit,
        right_unit,
        node.ndim > 2,
        dynamic,
    )


def _layout(operand: Node) -> tuple[tuple[int, int], int]:
    """Strides of the last two axes, and how many neighbours one access may read."""
    rows, columns = operand.shape[-2:]
    filled = operand.inputs[0] if operand.prim.name == "copy" else operand
    if filled.prim.name == "full":  # as the first state of a recurrent cell: every element is the first one
        return (0, 0), 1
    strided = as_strided(operand)
    if strided is None:  # will be copied
        return (columns if rows > 1 else 0, 1 if columns > 1 else 0), _vector_width(columns, operand.dtype)
    _, variables, offset = strided
    strides = offset.coefficient(variables[-2]), offset.coefficient(variables[-1])
    if 1 not in strides:
        return strides, 1
    unit = variables[-1] if strides[1] == 1 else variables[-2]
    common = unit.extent
    for v in variables:
        if v is not unit:
            common = gcd(common, offset.coefficient(v))
    return strides, _vector_width(gcd(common, offset.const), operand.dtype)


def _vector_width(count: int, dtype: DType) -> int:
    """The largest power of two that divides ``count``, up to 16 bytes of elements."""
    return gcd(count, 16 // dtype.size)


def _rows_at_once(dot: DotShape) -> int:
    """Rows that dots and axpy compute at once: one kernel serves many numbers of rows."""
    if dot.m == 1:
        return 1
    return 8 if dot.right_is_small else min(next_power_of_two(dot.m), _MAX_ROWS)


def choose_config(target: Target, dot: DotShape) -> MatmulConfig:
    """The form that costs least.

    Of floats with few rows, or where reading the right operand again costs little, it is one that adds in an order
    that does not depend on the number of rows: a row's result is the same however many there are.
    """
    if dot.dynamic_k and dot.k <= _max_dynamic_length(target, dot):
        return _config_for_lengths(target, dot)
    configs = list(candidate_configs(target, dot))
    if dot.dtype.is_float and (dot.right_is_small or dot.m <= _MAX_ROWS):
        best = _typical_config(target, dot)
        configs = [f for f in configs if (f.name, f.order) == (best.name, best.order)]
        if dot.right_is_small and dot.m > 1:
            return next(f for f in configs if f.columns == best.columns)
    # a kernel serves all numbers of rows up to a power of two
    weighed = [
        f.seconds
        for f in candidate_configs(target, replace(dot, m=next_power_of_two(dot.m)))
        if any(_same_kernel(f, g) for g in configs)
    ]
    return configs[weighed.index(min(weighed))]


def _representative_lengths(longest: int) -> list[int]:
    """Lengths that stand for sums of up to so many terms: a power of four each."""
    return [_MIN_LENGTH << 2 * k for k in range((longest // _MIN_LENGTH).bit_length() // 2 + 1)]


def _max_dynamic_length(target: Target, dot: DotShape) -> int:
    """Terms up to which one form serves sums of any length.

    Short sums take next to nothing in any form. For long ones reading the right operand again may not, or a library may
    be faster.
    """
    longest = length_bucket(1)
    while True:
        more = replace(dot, k=4 * longest)
        if not more.right_is_small or min(f.seconds for f in candidate_configs(target, more)) > library_seconds(
            target, more
        ):
            return longest
        longest *= 4


def _config_for_lengths(target: Target, dot: DotShape) -> MatmulConfig:
    """The form whose worst length is the least bad one, compared with the best form for that length."""
    longest = _max_dynamic_length(target, dot)
    by_length = {
        k: list(candidate_configs(target, replace(dot, k=k, max_k=longest))) for k in _representative_lengths(longest)
    }
    best = [min(f.seconds for f in at_length) for at_length in by_length.values()]
    worst = [
        max(f.seconds / b for f, b in zip(same, best, strict=True)) for same in zip(*by_length.values(), strict=True)
    ]
    return by_length[dot.k][worst.index(min(worst))]


def _typical_config(target: Target, dot: DotShape) -> MatmulConfig:
    """The form whose order of summation is best for 1, 4 and 16 rows together (16, if the right operand is small)."""
    batch = _TYPICAL_BATCH if dot.batched else 1
    by_rows: list[dict[Any, MatmulConfig]] = []
    for m in (_MAX_ROWS,) if dot.right_is_small else (1, 4, _MAX_ROWS):
        best: dict[Any, MatmulConfig] = {}
        for f in candidate_configs(target, replace(dot, m=m, batch=batch)):
            key = f.name, f.order
            if f.name != "tiles" and (key not in best or f.seconds < best[key].seconds):
                best[key] = f
        by_rows.append(best)
    shared = [key for key in by_rows[-1] if all(key in best for best in by_rows)]
    return by_rows[-1][min(shared, key=lambda key: sum(best[key].seconds for best in by_rows))]


def _same_kernel(a: MatmulConfig, b: MatmulConfig) -> bool:
    return (a.name, a.order, a.columns, a.arguments) == (b.name, b.order, b.columns, b.arguments)


def kernel_and_library_seconds(target: Target, node: Node) -> tuple[float, float]:
    """Seconds of the dot ``node`` in a generated kernel, and in a library's call with copies of what it cannot read."""
    shape = dot_shape(node)
    total = library_seconds(target, shape)
    for operand in node.inputs[:2]:
        strided = as_strided(operand)
        if strided and strided[0].prim.name == "input" and blas_layout(operand, strided) is None:
            total += seconds(target, 2 * operand.type.nbytes, launches=1)
    return choose_config(target, shape).seconds, total


def library_seconds(target: Target, dot: DotShape) -> float:
    """Seconds of a library's product."""
    return library_product_seconds(target, dot.dtype, dot.nbytes, dot.batch, dot.m, dot.n, dot.k)


def candidate_configs(target: Target, dot: DotShape) -> Iterator[MatmulConfig]:
    """Every form that is weighed."""
    if dot.longest_k <= _MAX_THREAD_TERMS:
        yield _elements(target, dot)
    if dot.m <= _MAX_ROWS or dot.right_is_small:
        if dot.right[1] != 1:
            yield from _dots(target, dot)
        yield from _axpy(target, dot)
    for tile in _TILES:
        yield _tiles(target, dot, *tile)


def _seconds(
    target: Target,
    dot: DotShape,
    blocks: int,
    in_flight: int,
    rounds: float,
    cycles: float,
    cached: float = 0,
    used: float = 1,
) -> float:
    """Seconds of a kernel; see :func:`.cost.gpu_kernel_seconds`."""
    return gpu_kernel_seconds(
        target,
        nbytes=dot.nbytes,
        read=dot.nbytes - dot.batch * dot.m * dot.n * dot.dtype.size,
        blocks=blocks,
        in_flight=in_flight,
        rounds=rounds,
        cycles=cycles,
        cached=cached,
        used=used,
    )


def _elements(target: Target, dot: DotShape) -> MatmulConfig:
    count = dot.batch * dot.m * dot.n
    blocks = -(-count // 128)
    apart = 1 if dot.right[1] == 1 else min(8, dot.k)  # neighbours read different lines
    cycles = count * dot.k * (2 * apart / target.gpu.cycle_loads + 1 / multiply_adds_per_cycle(target.gpu, dot.dtype))
    estimate = _seconds(target, dot, blocks, 128 * 4 * dot.dtype.size, 0.1 * dot.k, cycles)
    arguments = (dot.left[1], dot.right[0])
    return MatmulConfig("product_element", 0, 0, 128, 1, 0, arguments, (1, 1), estimate)


def _dots(target: Target, dot: DotShape) -> Iterator[MatmulConfig]:
    rows, warps = _rows_at_once(dot), 8
    rate = multiply_adds_per_cycle(target.gpu, dot.dtype)
    down = -(-dot.m // rows)
    along = dot.right[0] == 1
    vector = gcd(dot.left_unit if dot.left[1] == 1 else 16, dot.right_unit if along else 16 // dot.dtype.size, dot.k)
    vector = 1 if dot.dynamic_k else vector
    spans = dot.longest_k // vector
    lanes = min(32, next_power_of_two(spans))
    sector = dot.dtype.size if along else min(32, max(1, dot.right[0]) * dot.dtype.size)  # bytes that an element costs
    share = dot.nbytes / (dot.nbytes + dot.batch * dot.k * dot.n * (sector - dot.dtype.size))
    for each in (1, 2, 4):
        if rows * each * max(4, dot.compute_size) > _MAX_SUM_BYTES or (each > 1 and each > dot.n):
            continue
        for layers in (1, 2, 4, 8):
            if layers > 1 and (lanes < 32 or layers * lanes > spans):
                break
            columns = warps // layers * (32 // lanes) * each
            words = layers * rows * columns
            if words * dot.compute_size > _MAX_SHARED_BYTES:
                continue
            blocks = dot.batch * down * -(-dot.n // columns)
            unrolled = 4 if rows * each <= 8 else 2 if rows * each <= 16 else 1
            steps = -(-spans // (lanes * layers))
            # of few columns not every warp has one of its own; then rows are what memory is busy with
            asked = warps * each if dot.n >= warps else warps * each * min(columns, dot.n) // columns + layers * rows
            under_way = 32 * min(steps, unrolled) * asked * vector * dot.dtype.size
            read = dot.batch * down * dot.n * dot.k
            loads = (
                read / vector * ((1 if along else vector) + rows / each)
                + dot.batch * down * dot.n * rows * layers * lanes * lanes.bit_length()
            )
            cycles = max(read * rows / (rate * target.gpu.dot_share), loads / target.gpu.cycle_loads)
            near = read * (sector + dot.dtype.size * rows / each)
            estimate = _seconds(target, dot, blocks, under_way, steps / unrolled, cycles, near, share)
            arguments = (rows, each, lanes, layers, warps, vector, *dot.left, *dot.right)
            order = vector, lanes, layers
            yield MatmulConfig(
                "dots", rows, columns, 32 * warps, layers, words, arguments, (vector, vector), estimate, order
            )


def _axpy(target: Target, dot: DotShape) -> Iterator[MatmulConfig]:
    rows = _rows_at_once(dot)
    rate = multiply_adds_per_cycle(target.gpu, dot.dtype)
    down = -(-dot.m // rows)
    deep = 1 if dot.dynamic_k else gcd(dot.left_unit if dot.left[1] == 1 else 16 // dot.dtype.size, dot.k, 4)
    vector = dot.right_unit if dot.right[1] == 1 else 1
    size = max(4, dot.compute_size)
    least = max(
        1, min(vector, _MAX_SUM_BYTES // ((8 if dot.right_is_small else _MAX_ROWS) * size))
    )  # of any number of rows
    vector = max(1, min(vector, _MAX_SUM_BYTES // (rows * size)))
    widest = min(32, next_power_of_two(-(-dot.n // least)))
    asked = vector * deep * dot.dtype.size
    unrolled = _unrolled(rows, asked)
    read = dot.batch * down * dot.n * dot.k
    cycles = max(
        read * rows / (rate * target.gpu.dot_share), read / vector * (1 + rows / deep) / target.gpu.cycle_loads
    )
    for lanes in (widest >> k for k in range(widest.bit_length())):
        columns = lanes * vector
        if lanes < widest and columns * dot.dtype.size < 32:
            break
        most = max(1, next_power_of_two(dot.longest_k // deep) * lanes // 32)  # warps that have something to do
        for warps in sorted(
            {min(8, most), min(16 if rows <= 8 and 2 * rows * vector * size <= _MAX_SUM_BYTES else 8, most)}
        ):
            words = warps * rows * columns
            if words * dot.compute_size > _MAX_SHARED_BYTES:
                continue
            blocks = dot.batch * down * -(-dot.n // columns)
            steps = -(-dot.k // (deep * 32 * warps // lanes))
            under_way = 32 * warps * min(steps, unrolled) * deep * vector * dot.dtype.size
            share = min(1.0, (columns if dot.right[1] == 1 else 1) * dot.dtype.size / 32)
            estimate = _seconds(target, dot, blocks, under_way, steps / unrolled, cycles, used=share)
            arguments = (rows, lanes, warps, vector, deep, *dot.left, *dot.right)
            order = deep, lanes, warps
            yield MatmulConfig(
                "axpy", rows, columns, 32 * warps, warps, words, arguments, (deep, vector), estimate, order
            )


def _unrolled(rows: int, asked: int) -> int:
    """Steps of an axpy that are under way together, each of which asks for so many bytes of the right operand."""
    return 1 if rows > 8 else 4 if asked <= 16 else 2 if asked <= 64 else 1


def axpy_words(rows: int, deep: int, vector: int, dtype: DType) -> int:
    """Words that a thread of an axpy holds: sums, and what it has asked for of both operands."""
    asked = _unrolled(rows, vector * deep * dtype.size) * deep * (vector + rows)
    return (rows * vector + asked) * max(1, dtype.size // 4)


def _tiles(
    target: Target, dot: DotShape, side: int, part: int, groups: int, depth: int, efficiency: float
) -> MatmulConfig:
    threads = (side // part) ** 2 * groups
    wide = min(part, 16 // dot.compute_size)
    while 2 * depth * (side + wide) * dot.compute_size > _MAX_SHARED_BYTES:
        depth //= 2
    depth = max(min(depth, next_power_of_two(dot.longest_k)), threads // side, groups)
    most = side * depth // threads  # elements of a stage that a thread moves
    (la, sa), (lb, sb) = dot.left, dot.right
    along_left, along_right = sa == 1 or la != 1, lb == 1 and sb != 1
    vectors = gcd(dot.left_unit, most), gcd(dot.right_unit, most)
    down, across = -(-dot.m // side), -(-dot.n // side)
    blocks = dot.batch * down * across
    stage = 2 * side * depth * dot.dtype.size
    steps = -(-dot.k // depth)
    cycles = blocks * side * side * steps * depth / (multiply_adds_per_cycle(target.gpu, dot.dtype) * efficiency)
    cycles += blocks * 2 * side * dot.k * dot.dtype.size / target.gpu.l2_cycle_bytes
    estimate = _seconds(target, dot, blocks, stage, steps + 1, cycles)
    words = max(depth * 2 * (side + wide), groups * side * side)
    arguments = (side, side, depth, groups, part, *vectors, along_left, along_right, la, sa, sb, lb)
    return MatmulConfig("tiles", side, side, threads, groups, words, arguments, vectors, estimate)
