# SPDX-License-Identifier: Apache-2.0
"""Random typed graphs for hypothesis: every primitive of the table, views, broadcasting, corner shapes.

``graphs()`` draws a graph in small steps, so that hypothesis shrinks it to a few nodes; a step that does
not fit what is there adds nothing. Operands that no earlier node can be are new arguments of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from hybridgpu.compiler.ir import Builder, Graph, Node, Provenance, tensor_type
from hybridgpu.compiler.primitives import TABLE, builder
from hybridgpu.core.dtypes import DType, bf16, bool_, f16, f32, f64, i8, i32, i64, u8, u32

__all__ = ["LEFT_OUT", "SCATTERS", "STEPS", "Steps", "graphs"]

#: primitives that no step draws, and why
_MATRIX = "a library call on matrices that must fit; tests/ops/test_linalg.py has it"
_ALONE = "a library call that stands between kernels; its operator's tests have it"
_REJECTION = "a library call without an oracle but statistics; tests/ops/test_sampling.py has it"
_DETECTION = [
    *(
        "anchor_match",
        "bipartite_match",
        "correlation",
        "correlation_back",
        "correlation_slope",
        "detections",
        "fourier",
    ),
    *("hawkes", "hawkes_gradient", "inverse_fourier", "nms_order", "proposals", "roi_align_turned"),
]
LEFT_OUT = {
    "custom_gradient": "the simplifier's table test has it: it needs a registered rule",
    **dict.fromkeys(
        [
            "cholesky",
            "det",
            "eig",
            "eigh",
            "general_solve",
            "inverse",
            "inverse_or_zero",
            "lq",
            "slogdet",
            "svd",
            "tri_solve",
        ],
        _MATRIX,
    ),
    **dict.fromkeys(["random_gamma", "random_poisson", "unique_zipfian"], _REJECTION),
    **dict.fromkeys(["ctc", "ctc_gradient", "roi_align", "roi_align_back", "roi_argmax"], _ALONE),
    "loop": "random_loops.py draws them",
    "concat_buffer": "made by a pass of joins of what rows, products and convolutions make, as joined_rows draws them",
    "gemm_bias": "made by a pass for a library that tests/cublaslt_on_cpu stands in for",
    **dict.fromkeys(
        ["conv_bias_act", "conv_backward_data", "conv_backward_filter"],
        "made by a pass for a library that tests/cudnn_on_cpu stands in for",
    ),
    **dict.fromkeys(_DETECTION, "a library call; tests/ops/test_detection.py has it"),
}

_EXTENTS = (2, 3, 1, 4, 5, 7, 8, 16, 33, 70, 0)
_FLOATS = (1.0, 2.0, 0.5, -1.0, 3.0, 0.0, -0.0, 0.1, 1e-3, -2.5, math.inf, -math.inf, math.nan)
_INTEGERS = (1, 2, -1, 0, 3, 7)
_DTYPES = (f32, f32, f32, f64, f16, bf16, i32, i64, u8, i8, bool_)
_INDEX = (i32, i64)


class Steps:
    """The graph so far, and the choices of hypothesis."""

    def __init__(self, draw: Callable[..., Any], size_limit: int) -> None:
        self.draw, self.limit = draw, size_limit
        self.random = True  #: whether random numbers may be drawn
        self.b: Builder = builder()
        self.nodes: list[Node] = []

    # -- choices

    def pick(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def find(self, fits: Callable[[Node], bool]) -> Node | None:
        """An earlier node that fits, the latest first."""
        found = [n for n in reversed(self.nodes) if fits(n)]
        return self.pick(found) if found else None

    def new(self, shape: Sequence[int], dtype: DType) -> Node:
        node = self.b.input(tensor_type(tuple(shape), dtype), f"x{len(self.b.inputs)}")
        self.nodes.append(node)
        return node

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        rank = self.pick((2, 1, 3, 0, 4)) if rank is None else rank
        shape: list[int] = []
        for _ in range(rank):
            room = self.limit // max(math.prod(shape), 1)
            shape.append(self.pick([d for d in _EXTENTS if d <= max(room, 1)]))
        return tuple(shape)

    def float_node(self) -> Node | None:
        return self.find(lambda n: n.dtype.is_float)

    def number_node(self) -> Node | None:
        return self.find(lambda n: n.dtype is not bool_ and n.dtype is not u32)

    def partner(self, x: Node) -> Any:
        """A number or a node that broadcasts against ``x``."""
        kind = self.pick(("node", "number", "new"))
        if kind == "number":
            return self.pick(_FLOATS if x.dtype.is_float else _INTEGERS if x.dtype is not bool_ else (True, False))
        if kind == "node":
            found = self.find(lambda n: n.dtype is x.dtype and self.broadcasts(n.shape, x.shape))
            if found is not None:
                return found
        shape = [d if self.pick((True, True, False)) else 1 for d in x.shape]
        return self.new(shape[self.pick(range(len(shape) + 1)) :] if shape else (), x.dtype)

    def broadcasts(self, a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        rank = max(len(a), len(b))
        pairs = list(zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b))
        if any(p != q and 1 not in (p, q) for p, q in pairs):
            return False
        return math.prod(q if p == 1 else p for p, q in pairs) <= self.limit

    def axes(self, x: Node) -> tuple[int, ...]:
        last = self.pick(range(x.ndim))
        return tuple(k for k in range(x.ndim) if k == last or self.pick((False, True)))

    def position(self, shape: tuple[int, ...], extent: int) -> Node:
        """Indices below ``extent``."""
        at = self.find(lambda n: n.dtype in _INDEX and n.shape == shape)
        if at is None or self.pick((False, True)):
            at = self.new(shape, self.pick(_INDEX))
        at = self.b.mod(at, extent)
        # counted from the end, and brought back
        return self.b.wrap_index(at - extent, extent, axis=0) if self.pick((False, False, True)) else at


# -- one function a step: what it adds, or None where nothing fits

STEPS: dict[str, Callable[[Steps], Node | None]] = {}
COVERED: set[str] = {"input", "broadcast", "full", "wrap_index"}


def step(*primitives: str) -> Callable[[Callable[[Steps], Node | None]], Callable[[Steps], Node | None]]:
    """Register a step and the primitives it can draw."""

    def register(function: Callable[[Steps], Node | None]) -> Callable[[Steps], Node | None]:
        STEPS[function.__name__] = function
        COVERED.update(primitives)
        return function

    return register


def _elementwise(test: Callable[[Any], bool]) -> list[str]:
    names = []
    for p in TABLE.values():
        if p.family == "elementwise" and p.name not in ("cast", "select", "copy", "stop_gradient") and test(p):
            names.append(p.name)
    return names


def _takes(p: Any, count: int, dtype: DType) -> DType | None:
    """The result's dtype if ``p`` takes ``count`` operands of ``dtype``."""
    expr = p.expr if isinstance(p.expr, str) else p.expr([dtype] * count, dtype)
    if (f"{{{count - 1}}}" not in expr) or f"{{{count}}}" in expr:
        return None
    try:
        return p.infer([tensor_type((), dtype)] * count, {}).dtype
    except TypeError:
        return None


_FLOAT_UNARY = _elementwise(lambda p: _takes(p, 1, f32) is f32)
_NUMBER_UNARY = _elementwise(lambda p: _takes(p, 1, f32) is f32 and _takes(p, 1, i32) is i32)
_FLOAT_BINARY = _elementwise(lambda p: _takes(p, 2, f32) is f32)
_NUMBER_BINARY = _elementwise(lambda p: _takes(p, 2, f32) is f32 and _takes(p, 2, i32) is i32)
_INTEGER_BINARY = ("bit_and", "bit_or", "bit_xor", "gcd")
_COMPARE = _elementwise(lambda p: _takes(p, 2, i32) is bool_)
_FLOAT_TO_BOOL = _elementwise(lambda p: _takes(p, 1, f32) is bool_)
_LOGIC = _elementwise(lambda p: _takes(p, 2, bool_) is bool_ and _takes(p, 2, f32) is None)


@step(*_NUMBER_BINARY, *_INTEGER_BINARY)
def arithmetic(s: Steps) -> Node | None:
    x = s.number_node()
    if x is None:
        return None
    y = s.partner(x)
    pair = (x, y) if s.pick((True, False)) else (y, x)
    return getattr(s.b, s.pick(_NUMBER_BINARY if x.dtype.is_float else (*_NUMBER_BINARY, *_INTEGER_BINARY)))(*pair)


@step(*_FLOAT_UNARY)
def unary(s: Steps) -> Node | None:
    x = s.number_node()
    return x and getattr(s.b, s.pick(_FLOAT_UNARY if x.dtype.is_float else _NUMBER_UNARY))(x)


@step(*_FLOAT_BINARY)
def float_binary(s: Steps) -> Node | None:
    x = s.float_node()
    return x and getattr(s.b, s.pick(_FLOAT_BINARY))(x, s.partner(x))


@step("pow")
def small_power(s: Steps) -> Node | None:
    x = s.float_node()
    return x and s.b.pow(x, s.pick((2.0, 3.0, 4.0, 0.0, 1.0, -1.0, 0.5)))


@step(*_COMPARE, *_LOGIC, *_FLOAT_TO_BOOL, "logical_not", "select")
def choose(s: Steps) -> Node | None:
    """A comparison, perhaps negated or joined to another, then a select."""
    x = s.number_node()
    if x is None:
        return None
    if x.dtype.is_float and s.pick((False, False, True)):
        test = getattr(s.b, s.pick(_FLOAT_TO_BOOL))(x)
    else:
        test = getattr(s.b, s.pick(_COMPARE))(x, s.partner(x))
    if s.pick((False, True)):
        other = s.find(lambda n: n.dtype is bool_ and n.shape == test.shape)
        test = getattr(s.b, s.pick(_LOGIC))(test, other if other is not None else s.new(test.shape, bool_))
    if s.pick((False, True)):
        test = s.b.logical_not(test)
    s.nodes.append(test)
    if s.pick((False, True)):
        return None
    y = s.find(lambda n: n.shape == test.shape and n.dtype is not u32)
    if y is None:
        return None
    z = s.find(lambda n: n.type is y.type and n is not y)
    return s.b.select(test, y, z if z is not None else s.b.full_like(y, 1))


@step("cast")
def convert(s: Steps) -> Node | None:
    x = s.number_node()
    if x is None:
        return None
    target = s.pick((f32, f64, f16, bf16, i32, i64, u8, i8, bool_))
    if x.dtype.is_float and target.is_integer:  # what C and NumPy leave undefined is not asked for
        x = s.b.select(s.b.isnan(x), s.b.full_like(x, 0.0), s.b.max(s.b.min(x, 100.0), -100.0))
    return s.b.cast(x, target)


@step("copy", "stop_gradient")
def same(s: Steps) -> Node | None:
    x = s.pick(s.nodes)
    return getattr(s.b, s.pick(("copy", "stop_gradient")))(x)


@step("reshape")
def reshape(s: Steps) -> Node | None:
    x = s.pick(s.nodes)
    left, shape = x.size, []
    if not left:
        return s.b.reshape(x, (*x.shape[::-1], 1))
    while left > 1:
        shape.append(s.pick([d for d in (left, 2, 3, 4, 5, 7, 8, 11, 16, 35) if left % d == 0]))
        left //= shape[-1]
    if s.pick((False, True)):
        shape.insert(s.pick(range(len(shape) + 1)), 1)
    return s.b.reshape(x, shape)


@step("transpose")
def transpose(s: Steps) -> Node | None:
    x = s.pick(s.nodes)
    return s.b.transpose(x, s.draw(st.permutations(range(x.ndim))))


@step("broadcast")
def spread(s: Steps) -> Node | None:
    x = s.pick(s.nodes)
    shape = [s.pick((d, 1, 3, 6)) if d == 1 else d for d in x.shape]
    shape = [s.pick((2, 1, 5))] + shape if s.pick((False, True)) else shape
    return s.b.broadcast(x, shape) if math.prod(shape) <= s.limit else None


@step("slice")
def cut(s: Steps) -> Node | None:
    x = s.pick(s.nodes)
    begin = [s.pick(range(min(d, 4) + 1)) for d in x.shape]
    end = [max(lo, d - s.pick((0, 0, 1, 2))) for lo, d in zip(begin, x.shape)]
    return s.b.slice(x, begin, end, [s.pick((1, 1, 2, 3)) for _ in x.shape])


@step("pad")
def pad(s: Steps) -> Node | None:
    x = s.number_node()
    if x is None or not x.ndim or x.size > s.limit // 2:
        return None
    low, high = (tuple(s.pick((0, 1, 0, 3)) for _ in x.shape) for _ in range(2))
    if math.prod(lo + d + hi for lo, d, hi in zip(low, x.shape, high)) > s.limit:
        return None
    return s.b.pad(x, low=low, high=high, value=s.pick(_FLOATS if x.dtype.is_float else (0, 1, 5)))


@step("reverse")
def reverse(s: Steps) -> Node | None:
    x = s.find(lambda n: n.ndim > 0)
    return x and s.b.reverse(x, axes=s.axes(x))


@step("concat")
def join(s: Steps) -> Node | None:
    x = s.find(lambda n: n.ndim > 0)
    if x is None:
        return None
    axis, parts = s.pick(range(x.ndim)), [x]
    for _ in range(s.pick((1, 2))):

        def fits(n: Node) -> bool:
            same = n.shape[:axis] == x.shape[:axis] and n.shape[axis + 1 :] == x.shape[axis + 1 :]
            return n.dtype is x.dtype and n.ndim == x.ndim and same

        found = s.find(fits)
        parts.insert(s.pick((0, 1)), found if found is not None else x)
    total = sum(p.size for p in parts)
    return s.b.concat(parts, axis) if total <= s.limit else None


@step("sum", "prod", "amax", "amin", "round_to")  # sums of halves are narrowed
def reduction(s: Steps) -> Node | None:
    x = s.find(lambda n: n.ndim > 0 and n.dtype is not u32)
    if x is None:
        return None
    kind = s.pick(("sum", "amax", "amin", "prod") if x.dtype is not bool_ else ("amax", "amin"))
    return s.b.reduce(kind, x, s.axes(x), keepdims=s.pick((False, True)))


@step("argmax", "argmin")
def arg(s: Steps) -> Node | None:
    x = s.find(lambda n: n.ndim > 0 and n.dtype not in (u32, bool_))
    return x and getattr(s.b, s.pick(("argmax", "argmin")))(x, axes=s.axes(x))


@step()
def normalise(s: Steps) -> Node | None:
    """The pattern of softmax and of layer normalisation: what rows kernels are for."""
    x = s.find(lambda n: n.ndim > 0 and n.dtype.is_float and n.size > 0)
    if x is None:
        return None
    axes = s.axes(x)
    if s.pick((True, False)):
        e = s.b.exp(x - s.b.reduce("amax", x, axes, keepdims=True))
        return e / s.b.sum(e, axes, keepdims=True)
    d = x - s.b.mean(x, axes, keepdims=True)
    return d * s.b.rsqrt(s.b.mean(d * d, axes, keepdims=True) + 1e-3)


@step()
def joined_rows(s: Steps) -> Node | None:
    """Joins of what no map kernel computes: parts are written where they belong."""
    x = normalise(s)
    if x is None:
        return None
    axis, parts = s.pick(range(x.ndim)), [x]
    for _ in range(s.pick((1, 2))):
        more = s.pick((x, x * 2.0, s.b.exp(x) / s.b.reduce("amax", s.b.exp(x), s.axes(x), keepdims=True)))
        parts.insert(s.pick((0, 1)), more)
    if sum(p.size for p in parts) > s.limit:
        return None
    joined = s.b.concat(parts, axis)
    return s.b.max(joined, 0.0) if s.pick((False, True)) else joined


def _prepared(s: Steps, x: Node) -> Node:
    """Perhaps something cheap on the way to a product or a convolution, which may be computed as it is loaded."""
    kind = s.pick(("", "clip", "scale", "cast", "pad", "mask"))
    if kind == "clip":
        return s.b.max(x, 0)
    if kind == "scale":
        at = s.pick(range(x.ndim))
        return x * s.new([d if k == at else 1 for k, d in enumerate(x.shape)], x.dtype)
    if kind == "cast":
        return s.b.cast(s.new(x.shape, s.pick((i8, f16, f64) if x.dtype.is_float else (i8, u8))), x.dtype)
    if kind == "pad" and x.shape[-1] > 1:
        inner = s.b.slice(x, (0,) * x.ndim, (*x.shape[:-1], x.shape[-1] - 1))
        return s.b.pad(inner, low=(0,) * (x.ndim - 1) + (1,), high=(0,) * x.ndim, value=2)
    if kind == "mask" and x.dtype.is_float and s.random:
        keep = s.b.ge(s.b.cast(s.b.random_bits(x.shape) / 4096, f32), 2.0**18)
        return s.b.select(keep, x, s.b.full_like(x, 0))
    return x


@step("dot")
def product(s: Steps) -> Node | None:
    x = s.find(lambda n: n.ndim >= 2 and n.dtype in (f32, f64, f16, i32))
    if x is None:
        return None
    *batch, m, k = x.shape
    n = s.pick((3, 1, 5, 8, 16))
    if math.prod(batch) * m * n > s.limit:
        return None
    w = s.find(lambda w: w.dtype is x.dtype and w.ndim == x.ndim and w.shape[:-1] == (*batch, k))
    if w is None or s.pick((False, True)):
        swap = (*range(len(batch)), x.ndim - 1, x.ndim - 2)
        w = s.b.transpose(s.new((*batch, n, k), x.dtype), swap) if s.pick((0, 1)) else s.new((*batch, k, n), x.dtype)
    y = s.b.dot(_prepared(s, x), _prepared(s, w))
    return y if y.size <= s.limit else None


@step("take")
def take(s: Steps) -> Node | None:
    x = s.find(lambda n: n.ndim > 0 and n.size > 0)
    if x is None:
        return None
    axis = s.pick(range(x.ndim))
    at = s.pick(((3,), (), (2, 2), (1,)))
    if x.size // x.shape[axis] * math.prod(at) > s.limit:
        return None
    return s.b.take(x, s.position(at, x.shape[axis]), axis=axis)


@step("take_along")
def take_along(s: Steps) -> Node | None:
    x = s.find(lambda n: n.ndim > 0 and n.size > 0)
    if x is None:
        return None
    axis = s.pick(range(x.ndim))
    shape = (*x.shape[:axis], s.pick((1, 2, 5)), *x.shape[axis + 1 :])
    return s.b.take_along(x, s.position(shape, x.shape[axis]), axis=axis) if math.prod(shape) <= s.limit else None


@step("scatter_add", "scatter_along")
def scatter(s: Steps) -> Node | None:
    x = s.find(lambda n: n.ndim > 0 and n.dtype in (f32, f64, i32))
    if x is None:
        return None
    axis, extent = s.pick(range(x.ndim)), s.pick((4, 1, 6))
    if x.size // max(x.shape[axis], 1) * extent > s.limit:
        return None
    if s.pick((False, True)):
        return s.b.scatter_along(x, s.position(x.shape, extent), axis=axis, extent=extent)
    return s.b.scatter_add(x, s.position((x.shape[axis],), extent), axis=axis, extent=extent)


@step("scatter_add")
def two_scatters(s: Steps) -> Node | None:
    """The gradient of a table that was read twice: two sums into the same rows, from updates of their own."""
    x = s.find(lambda n: n.ndim > 0 and n.dtype in (f32, f64, i32))
    if x is None:
        return None
    extent = s.pick((4, 1, 6, 40))
    rows = s.pick((1, 3, 9))
    if max(extent, rows) * (x.size // max(x.shape[0], 1)) > s.limit:
        return None
    other = s.new((rows, *x.shape[1:]), x.dtype)
    sums = [s.b.scatter_add(u, s.position(u.shape[:1], extent), axis=0, extent=extent) for u in (x, other)]
    s.nodes += sums if s.pick((False, False, True)) else []
    return sums[0] + sums[1]


@step("sum")
def count(s: Steps) -> Node | None:
    """How many elements are so: whole numbers, whose sums stand beside those of floats."""
    x = s.find(lambda n: n.ndim > 0 and n.dtype is not u32)
    if x is None:
        return None
    kind = s.pick((i32, i64, u8, f32))
    test = x if x.dtype is bool_ else s.b.gt(x, s.pick((0, 1)))
    return s.b.sum(s.b.cast(test, kind), s.axes(x), keepdims=s.pick((False, True)))


@step("scatter_set")
def replace(s: Steps) -> Node | None:
    """Rows replaced by others, perhaps some of them twice."""
    x = s.find(lambda n: n.ndim > 0 and n.size > 0 and n.dtype in (f32, f64, i32))
    if x is None:
        return None
    rows = s.pick((1, 3))
    updates = s.new((rows, *x.shape[1:]), x.dtype)
    return s.b.scatter_set(x, updates, s.position((rows,), x.shape[0])) if updates.size <= s.limit else None


@step("argsort", "cumsum")
def order(s: Steps) -> Node | None:
    """Whole numbers only: rounding would decide about the order, and add up along the axis."""
    x = s.find(lambda n: n.ndim > 0 and n.dtype in (i32, i64, u8, i8))
    if x is None:
        return None
    axis = s.pick(range(x.ndim))
    if s.pick((False, True)):
        return s.b.cumsum(x, axis=axis)
    return s.b.argsort(x, axis=axis, ascending=s.pick((True, False)))


@step("unfold", "fold")
def slide(s: Steps) -> Node | None:
    """Windows over the last axis, or elements put back from them."""
    x = s.find(lambda n: n.ndim > 0 and n.size > 0 and n.dtype is not u32)
    if x is None:
        return None
    stride, dilate = s.pick((1, 2, 3)), s.pick((1, 2))
    params = {"stride": (stride,), "dilate": (dilate,)}
    if x.ndim > 1 and s.pick((False, True)):
        covered = (x.shape[-1] - 1) * stride + (x.shape[0] - 1) * dilate + 1 + s.pick((0, 1, 4))
        fits = x.size // x.shape[-1] * covered <= s.limit
        return s.b.fold(x, extent=(covered,), **params) if fits else None
    width = s.pick([k for k in (1, 2, 3) if (k - 1) * dilate < x.shape[-1]])
    places = (x.shape[-1] - (width - 1) * dilate - 1) // stride + 1
    if x.size * width > s.limit:
        return None
    spread = s.b.broadcast(s.b.reshape(x, (1, *x.shape)), (width, *x.shape))
    return s.b.unfold(spread, extent=(places,), **params)


@step("conv")
def convolve(s: Steps) -> Node | None:
    """One spatial axis; the convolution's own tests have the rest."""
    x = s.find(lambda n: n.ndim == 3 and n.dtype in (f32, f64) and n.size > 0)
    if x is None:
        return None
    groups = s.pick([g for g in (1, 2, x.shape[1]) if x.shape[1] % g == 0])
    w = s.new((groups * s.pick((1, 2)), x.shape[1] // groups, s.pick((1, 2, 3))), x.dtype)
    low, high = s.pick((0, 1, 2)), s.pick((0, 1))
    stride, dilate, base = s.pick((1, 2)), s.pick((1, 2)), s.pick((1, 2))
    if (x.shape[2] - 1) * base + 1 + low + high < (w.shape[2] - 1) * dilate + 1:
        return None
    params = {"stride": (stride,), "low": (low,), "high": (high,), "dilate": (dilate,), "base_dilate": (base,)}
    if base > 1:  # whether the zeros between elements are multiplied shows where a weight is not finite
        w = s.b.select(s.b.lt(s.b.abs(w), 1e6), w, 0.5)
    y = s.b.conv(_prepared(s, x), w, groups=groups, **params)
    return y if y.size <= s.limit else None


@step("random_bits")
def uniform(s: Steps) -> Node | None:
    x = s.float_node()
    return x and s.b.cast(s.b.random_bits(x.shape) / 4096, f32) * 2.0**-20


@step("iota", "full")
def leaf(s: Steps) -> Node | None:
    shape, dtype = s.shape(), s.pick((f32, i32, i64))
    if shape and s.pick((True, False)):
        return s.b.iota(shape, s.pick(range(len(shape))), dtype)
    return s.b.full(shape, s.pick(_FLOATS if dtype.is_float else _INTEGERS), dtype)


#: common ones more often: most graphs should be fusable arithmetic with views in between
_WEIGHTED = [
    "",  # nothing: what a step shrinks to
    *STEPS,
    *("arithmetic", "unary") * 3,
    *("choose", "reduction", "reshape", "transpose", "spread", "normalise", "product") * 2,
]


#: tables: what reads and writes at computed positions, and what may become part of such a kernel
SCATTERS = [
    "",
    *("scatter", "two_scatters", "take") * 4,
    *("replace", "take_along", "count", "reduction", "arithmetic", "unary", "choose") * 2,
    *("reshape", "transpose", "spread", "normalise", "join", "product", "convert", "cut"),
]


@st.composite
def graphs(draw: Any, steps: int = 16, size_limit: int = 2000, names: Sequence[str] = tuple(_WEIGHTED)) -> Graph:
    """A random graph of at most ``steps`` steps; no value has more than ``size_limit`` elements.

    The steps are among ``names``, those that stand there twice more often.

    Its outputs are what nothing reads, and some other nodes, also twice.
    """
    s = Steps(draw, size_limit)
    for _ in range(draw(st.integers(1, 2))):
        s.new(s.shape(), s.pick(_DTYPES))
    for k in range(draw(st.integers(steps // 2, steps))):
        name = s.pick(names)
        s.b.prov = Provenance(name, f"n{k}", "net.py:1")
        made = STEPS[name](s) if name else None
        if made is not None:
            s.nodes.append(made)
    used = {i for n in s.b for i in n.inputs}
    ends = [n for n in s.nodes if n not in used and n.prim.name != "input"]
    outputs = ends[-6:] + draw(st.lists(st.sampled_from(s.nodes), min_size=0 if ends else 1, max_size=2))
    return s.b.finish(outputs, "random")
