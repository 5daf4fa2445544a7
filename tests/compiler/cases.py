# SPDX-License-Identifier: Apache-2.0
"""Graphs that every stage of the compiler is tried on: name -> (function of a builder, input types).

Each is a pattern that a kernel kind, a view, a fusion rule or a corner needs. ``kinds`` in EXPECTED
states what the compiler should make of some of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from hybridgpu.compiler.ir import Builder, Graph, Node, tensor_type
from hybridgpu.compiler.ir.share import Share
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.target import CUDA, Target, cuda_target
from hybridgpu.dtypes import from_short, i64

Case = tuple[Callable[..., Any], tuple[str, ...]]
CASES: dict[str, Case] = {}
#: cases whose CUDA kernels are made for a machine that is shorter of something than the usual one, or put together
MACHINES: dict[str, dict[str, Any]] = {}


def case(*types: str, **machine: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a graph; ``machine`` replaces figures of its CUDA target."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES[function.__name__] = (function, types)
        if machine:
            MACHINES[function.__name__] = machine
        return function

    return register


def cuda_of(name: str, arch: str = "") -> Target:
    """The CUDA target of a case, on ``arch`` (by default that of ``CUDA``)."""
    target = cuda_target(arch, CUDA.multiprocessors) if arch else CUDA
    machine = dict(MACHINES.get(name, {}))
    if "cluster_blocks" in machine:
        machine["cluster_blocks"] = min(machine["cluster_blocks"], target.cluster_blocks)
    return replace(target, **machine)


def parse(text: str) -> Any:
    short, _, rest = text.partition("[")
    return tensor_type(tuple(int(d) for d in rest.rstrip("]").split(",") if d), from_short(short))


def build(name: str) -> Graph:
    """The graph of a case."""
    function, types = CASES[name]
    b = builder()
    inputs = [b.input(parse(t), f"x{k}") for k, t in enumerate(types)]
    out = function(b, *inputs)
    return b.finish([out] if isinstance(out, Node) else list(out), name)


def arrays(graph: Graph, seed: int = 0, specials: bool = False) -> list[np.ndarray]:
    """Inputs for a graph; ``specials`` mixes in NaN, infinities and zeros."""
    rng = np.random.default_rng(seed)
    out = []
    for node in graph.inputs:
        shape, dtype = node.shape, node.dtype
        if dtype.short == "u32":
            a = rng.integers(0, 2**32, shape, dtype=np.uint32)
        elif dtype.is_float:
            a = rng.standard_normal(shape).astype(dtype.np)
            if specials and a.size:
                where = rng.random(shape)
                a = np.where(
                    where < 0.05,
                    np.nan,
                    np.where(where < 0.1, np.inf, np.where(where < 0.15, -np.inf, np.where(where < 0.25, -0.0, a))),
                ).astype(dtype.np)
        elif dtype.kind == "b":
            a = rng.random(shape) < 0.5
        else:
            low = 0 if dtype.kind == "u" else -5
            a = rng.integers(low, 12, shape).astype(dtype.np)
        out.append(a)
    return out


def plain(a: np.ndarray) -> np.ndarray:
    """The values in a type of NumPy's: its comparisons of arrays do not know bfloat16's NaN."""
    return a.astype(np.float32) if a.dtype.name == "bfloat16" else a


# -- map


@case("f32[100,7]", "f32[7]")
def bias(b: Builder, x: Node, y: Node) -> Node:
    return b.max((x + y) * 2.0 - 1.0, 0.0)


@case("f32[1000]")
def chain(b: Builder, x: Node) -> Node:
    return b.tanh(x * 1.1 + 0.2) * b.sigmoid(x) + b.max(x - 0.3, 0.0) * 0.5 - b.exp(-(x * x))


@case("f32[1001]")
def odd_tail(b: Builder, x: Node) -> Node:
    return b.sqrt(b.abs(x)) + 1


@case("f32[]")
def scalar(b: Builder, x: Node) -> Node:
    return b.exp(x)


@case("f32[6,40]", "f32[6,1]", "f32[1,40]")
def broadcast_both(b: Builder, x: Node, r: Node, c: Node) -> Node:
    return x * r + c


@case("f32[3,1,5]", "f32[4,1]")
def broadcast_outer(b: Builder, x: Node, y: Node) -> Node:
    return x + y


@case("f32[4,6]", "f32[4,3]")
def joins(b: Builder, x: Node, y: Node) -> Any:
    return (
        b.concat([b.exp(x), y, b.reverse(x, axes=(1,))], 1),
        b.pad(x, low=(1, 0), high=(0, 2), value=3.0),
        b.transpose(b.reshape(x, (2, 12)), (1, 0)),
    )


@case("f32[5,6,7]")
def slices(b: Builder, x: Node) -> Any:
    y = b.slice(x, (1, 0, 2), (5, 6, 7), (2, 1, 3))
    return y * 2, b.slice(x * x, (0, 5, 0), (5, 6, 7))


@case("f32[8,12]")
def transposed_sum(b: Builder, x: Node) -> Node:
    return b.transpose(x, (1, 0)) + b.reshape(x, (12, 8))


@case("f32[6,8]")
def reshaped_chain(b: Builder, x: Node) -> Node:
    y = b.reshape(b.exp(x), (3, 2, 8)) * 2
    return b.reshape(b.transpose(y, (0, 2, 1)), (24, 2)) - 1


@case("f32[10,8]")
def several_outputs(b: Builder, x: Node) -> Any:
    h = b.tanh(x)
    return h, h * h, b.sum(h, (1,))


@case("f32[64]", "f32[64]")
def same_output_twice(b: Builder, x: Node, y: Node) -> Any:
    z = x + y
    return z, z, b.reshape(z, (8, 8))


@case("f32[7]")
def input_is_output(b: Builder, x: Node) -> Any:
    return x, b.broadcast(b.reshape(x, (1, 7)), (3, 7))


@case("f32[33]")
def constants_only(b: Builder, x: Node) -> Any:
    return b.full((5,), 2.5, x.dtype), b.iota((3, 4), 1, x.dtype), x + b.iota((33,), 0, x.dtype)


@case("f32[40]")
def selects(b: Builder, x: Node) -> Any:
    positive = b.gt(x, 0.0)
    return (
        b.select(positive, x, b.full_like(x, 0.0)),
        b.cast(b.logical_and(positive, b.lt(x, 1.0)), x.dtype),
        b.isnan(x),
    )


@case("f16[65]", "f16[65]")
def half(b: Builder, x: Node, y: Node) -> Any:
    return x * y + 1, b.cast(b.exp(x), from_short("f32")), b.sum(x)


@case("bf16[65]", "bf16[65]")
def bfloat16(b: Builder, x: Node, y: Node) -> Any:
    other = b.cast(x, from_short("f16"))
    return x * y + 1, b.cast(b.exp(x), from_short("f32")), b.sum(x), b.cast(other * 0.5, x.dtype), b.amax(y, axes=(0,))


@case("bf16[6,40]", "bf16[40]")
def layer_norm_bfloat16(b: Builder, x: Node, scale: Node) -> Node:
    centred = x - b.mean(x, (1,), keepdims=True)
    return centred * b.rsqrt(b.mean(centred * centred, (1,), keepdims=True) + 1e-5) * scale


@case("f64[50]")
def double(b: Builder, x: Node) -> Any:
    return b.exp(x) * 0.1, b.sum(x * x)


@case("i32[30]", "i32[30]")
def integers(b: Builder, x: Node, y: Node) -> Any:
    return x + y, b.div(x, y), b.mod(x, y), b.max(x, y), b.abs(x), b.sign(y), b.sum(x), b.neg(x)


@case("u8[30]", "u8[30]")
def bytes_(b: Builder, x: Node, y: Node) -> Any:
    return x - y, x * y, b.div(x, y), b.mod(x, y), b.min(x, y)


@case("f64[40]", "f32[40]")
def powers(b: Builder, x: Node, y: Node) -> Any:
    return [b.pow(a, p) for a in (x, y) for p in (0.5, 2.0, -1.0, 0.0, 1.5)]


@case("i64[20]")
def longs(b: Builder, x: Node) -> Any:
    return x * (1 << 33), b.cast(x, from_short("f64")) / 3.0, b.cast(x, from_short("i8"))


@case("f32[30]")
def casts(b: Builder, x: Node) -> Any:
    y = x * 100
    return [b.cast(y, from_short(s)) for s in ("i32", "i64", "u8", "i8", "f64", "f16", "bf16", "bool")]


@case("f32[20,30]", "u32[4]")
def random_mask(b: Builder, x: Node, state: Node) -> Node:
    bits = b.apply(b._table["random_bits"], (state,), {"shape": x.shape, "stream": 1})
    u = b.cast(bits / 256, x.dtype) * 2.0**-24
    return b.select(b.ge(u, 0.3), x * (1 / 0.7), b.full_like(x, 0.0))


# functions of one element, in every type


ROUNDING = ("neg", "abs", "sign", "floor", "ceil", "trunc", "rint", "round_away")
#: (of large angles CUDA computes sin, cos, tan and what needs them in memory: tests/kernels/test_math.py has those)
FUNCTIONS = (
    *("exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "cbrt", "rcbrt"),
    *("asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("sigmoid", "softplus", "erf", "erfinv"),
)
GAMMA = ("tgamma", "lgamma")
COMPARED = ("eq", "ne", "lt", "le", "gt", "ge", "max", "min")
LOGICAL = ("logical_and", "logical_or", "logical_xor")


def _each(b: Builder, names: tuple[str, ...], *x: Node) -> list[Node]:
    return [getattr(b, name)(*x) for name in names]


@case("f32[40]", "f64[40]")
def rounded(b: Builder, x: Node, y: Node) -> Any:
    return [*_each(b, ROUNDING, x * 3.0), *_each(b, ROUNDING, y * 3.0)]


@case("f32[40]", "f64[40]")
def functions(b: Builder, x: Node, y: Node) -> Any:
    return [r for a in (x, y) for r in (*_each(b, FUNCTIONS, a), *_each(b, GAMMA, b.abs(a) + 0.1))]


@case("f32[40]", "f32[40]", "f64[40]", "f64[40]")
def functions_of_two(b: Builder, x: Node, y: Node, u: Node, v: Node) -> Any:
    names = ("hypot", "atan2", "mod", "div")
    return [r for p, q in ((x, y), (u, v)) for r in (*_each(b, names, p, q), b.pow(b.abs(p), q))]


@case("f32[40]", "f32[40]", "f64[40]", "f64[40]")
def compared(b: Builder, x: Node, y: Node, u: Node, v: Node) -> Any:
    """Many of them equal."""
    whole = [b.rint(a) for a in (x, y, u, v)]
    tests = [r for a in (x, u) for r in _each(b, ("isnan", "isinf", "isfinite"), a)]
    truths = b.gt(x, y), b.lt(x, 0.0)
    tests += [*_each(b, LOGICAL, *truths), b.logical_not(truths[0])]
    return [*_each(b, COMPARED, *whole[:2]), *_each(b, COMPARED, *whole[2:]), *tests]


@case("i32[40]", "i32[40]", "i64[40]", "i64[40]", "u8[40]", "u8[40]", "i8[40]", "i8[40]")
def compared_integers(b: Builder, *x: Node) -> Any:
    names = (*COMPARED, "mod", "div")
    found = [r for k in range(0, 8, 2) for r in _each(b, names, *x[k : k + 2])]
    return [*found, *(r for k in (0, 2, 6) for r in _each(b, ("neg", "abs", "sign"), x[k]))]


# -- rows and reductions


@case("f32[30,40]")
def softmax(b: Builder, x: Node) -> Node:
    e = b.exp(x - b.reduce("amax", x, (-1,), keepdims=True))
    return e / b.sum(e, (-1,), keepdims=True)


@case("f32[3,2000]")
def softmax_long(b: Builder, x: Node) -> Node:
    e = b.exp(x - b.reduce("amax", x, (-1,), keepdims=True))
    return e / b.sum(e, (-1,), keepdims=True)


# forms of rows on CUDA: where what is needed again has its place


@case("f32[3,1001]", numeric="fast")
def softmax_ragged(b: Builder, x: Node) -> Node:
    """Rows that begin anywhere are taken apart at multiples of 16 bytes, where sums may have any order."""
    return softmax(b, x)


@case("f16[7,803]", "f16[803]", numeric="fast")
def layer_norm_ragged_half(b: Builder, x: Node, g: Node) -> Any:
    d = x - b.mean(x, (-1,), keepdims=True)
    return d * b.rsqrt(b.mean(d * d, (-1,), keepdims=True) + 1e-5) * g, b.reduce("amax", x, (1,))


@case("f32[3,170]", numeric="fast")
def softmax_of_slices(b: Builder, x: Node) -> Any:
    """Rows of one width in memory and another in the kernel; two that begin between multiples of a span."""
    return softmax(b, b.slice(x, (0, 2), (3, 169))), softmax(b, b.slice(x, (1, 3), (2, 166)))


@case("f32[2,9000]", cluster_blocks=1, thread_items=0)
def softmax_in_shared_memory(b: Builder, x: Node) -> Node:
    return softmax(b, x)


@case("f16[2,9001]", "f16[2,9001]", cluster_blocks=1, thread_items=0, numeric="fast")
def softmax_in_shared_memory_ragged(b: Builder, x: Node, y: Node) -> Any:
    d = (x + y) - b.mean(x + y, (-1,), keepdims=True)
    return d * b.rsqrt(b.mean(d * d, (-1,), keepdims=True) + 1e-5), softmax(b, x * y)


@case("f32[2,20000]")
def softmax_in_a_cluster(b: Builder, x: Node) -> Any:
    e = b.exp(x - b.reduce("amax", x, (-1,), keepdims=True))
    total = b.sum(e, (-1,), keepdims=True)
    return e / total, b.log(total)


@case("f32[2,9000]", cluster_blocks=2, thread_items=8)
def softmax_in_two_blocks(b: Builder, x: Node) -> Any:
    e = b.exp(x - b.reduce("amax", x, (-1,), keepdims=True))
    total = b.sum(e, (-1,), keepdims=True)
    return e / total, b.log(total)


@case("f32[2,70001]", multiprocessors=2, numeric="fast")
def softmax_in_a_cluster_ragged(b: Builder, x: Node) -> Node:
    return softmax(b, x)


@case("f32[3,4000]", cluster_blocks=1, shared_bytes=8192, thread_items=0)
def softmax_read_again(b: Builder, x: Node) -> Node:
    return softmax(b, x)


# reductions in parts


@case("f32[3,5000]", "f16[5003]", launch_seconds=0.0, part_elements=256)
def sums_in_parts(b: Builder, x: Node, y: Node) -> Any:
    return b.sum(b.exp(x), (1,)) * 2.0, b.sum(y * y), b.mean(x)


@case("f32[2,5003]", launch_seconds=0.0, part_elements=256)
def extremes_in_parts(b: Builder, x: Node) -> Any:
    return [b.reduce(kind, x, (1,)) for kind in ("amax", "argmax", "amin", "argmin")]


@case("f32[1024,40]", "f64[6,4,700]", "f32[3,2,5,7,60]", launch_seconds=0.0, part_elements=16)
def columns_in_parts(b: Builder, x: Node, y: Node, z: Node) -> Any:
    return (
        *(b.sum(x * 0.5, (0,)), b.argmax(x, axes=(0,)), b.argmin(y, axes=(0, 2)), b.reduce("prod", y + 1.0, (2,))),
        *(b.sum(z, (0, 2, 4)), b.sum(z, (1, 3)), b.argmax(z, axes=(1, 4))),
    )


@case("f32[2,6001]", launch_seconds=0.0, part_elements=256, cluster_blocks=1, shared_bytes=8192)
def layer_norm_in_parts(b: Builder, x: Node) -> Node:
    d = x - b.mean(x, (-1,), keepdims=True)
    return d * b.rsqrt(b.mean(d * d, (-1,), keepdims=True) + 1e-5)


@case("f32[30,14]", "f32[70,128]")
def columns_of_uneven_length(b: Builder, x: Node, y: Node) -> Any:
    return b.sum(x, (0,)), b.log(b.sum(b.exp(y), (0,)))


@case("f64[3,90,64]", shared_bytes=40960, thread_items=0)
def columns_in_shared_memory(b: Builder, x: Node) -> Node:
    e = b.exp(x - b.reduce("amax", x, (1,), keepdims=True))
    return e / b.sum(e, (1,), keepdims=True)


@case("f16[3,90,64]", shared_bytes=4096, thread_items=0)
def columns_read_again(b: Builder, x: Node) -> Node:
    e = b.exp(x - b.reduce("amax", x, (1,), keepdims=True))
    return e / b.sum(e, (1,), keepdims=True)


@case("f32[2,6000]")
def sums_of_long_rows(b: Builder, x: Node) -> Node:
    return b.sum(x * x, (1,))


@case("f32[5,6000]")
def sums_of_long_rows_in_turn(b: Builder, x: Node) -> Node:
    """More rows than blocks."""
    return b.sum(x, (1,))


@case("f32[30,5,2]", "f32[5,2,40]", "f32[5,1,40]")
def rows_in_pairs(b: Builder, x: Node, y: Node, z: Node) -> Any:
    return b.sum(x, (1,)), softmax(b, y * z)


@case("f32[6,40]", "f32[3,3000]")
def softmax_transposed(b: Builder, x: Node, y: Node) -> Any:
    """What is written follows no row."""
    return b.transpose(softmax(b, x), (1, 0)), b.transpose(softmax(b, y), (1, 0))


@case("f32[3,5,40]")
def columns_transposed(b: Builder, x: Node) -> Any:
    return b.transpose(x / b.sum(x, (1,), keepdims=True), (0, 2, 1)), b.transpose(b.sum(x * x, (1,)), (1, 0))


@case("f32[4,5,6]")
def softmax_middle(b: Builder, x: Node) -> Node:
    e = b.exp(x - b.reduce("amax", x, (1,), keepdims=True))
    return e / b.sum(e, (1,), keepdims=True)


@case("f32[6,10]", "f32[10]", "f32[10]")
def layer_norm(b: Builder, x: Node, g: Node, c: Node) -> Node:
    d = x - b.mean(x, (-1,), keepdims=True)
    v = b.mean(d * d, (-1,), keepdims=True)
    return d * b.rsqrt(v + 1e-5) * g + c


@case("f32[5,6,7]")
def batch_norm(b: Builder, x: Node) -> Any:
    d = x - b.mean(x, (0, 2), keepdims=True)
    v = b.mean(d * d, (0, 2), keepdims=True)
    return d * b.rsqrt(v + 1e-5), b.sum(x)


@case("f32[2,6,4,4]", "f32[6]")
def group_norm(b: Builder, x: Node, g: Node) -> Node:
    y = b.reshape(x, (2, 3, 32))
    d = y - b.mean(y, (2,), keepdims=True)
    v = b.mean(d * d, (2,), keepdims=True)
    return b.reshape(d * b.rsqrt(v + 1e-5), (2, 6, 4, 4)) * b.reshape(g, (1, 6, 1, 1))


@case("f32[5,600]")
def columns(b: Builder, x: Node) -> Any:
    return b.sum(x * x, (0,)), b.argmax(x, axes=(0,)), b.argmin(x, axes=(1,)), b.reduce("prod", x * 0.1 + 1, (1,))


@case("f32[3,4,5,70]", "f32[3,1,1,70]")
def columns_of_blocks(b: Builder, x: Node, y: Node) -> Node:
    return b.sum(x * y, (2,))


@case("f32[3,5,40]")
def normalised_columns(b: Builder, x: Node) -> Any:
    d = x - b.mean(x, (1,), keepdims=True)
    v = b.mean(d * d, (1,), keepdims=True)
    return d * b.rsqrt(v + 1e-5), b.log(v + 1)


@case("f32[3,4,5,6]")
def many_axes(b: Builder, x: Node) -> Any:
    return b.sum(x, (0, 2)), b.reduce("amax", x, (1, 3)), b.mean(x), b.reduce("amin", x, (0, 1, 2))


@case("f32[40,3]")
def narrow_rows(b: Builder, x: Node) -> Node:
    return x - b.reduce("amax", x, (1,), keepdims=True)


@case("f16[70,5]")
def narrow_softmax_half(b: Builder, x: Node) -> Node:
    """A tile of short rows whose powers wait in a type that the result has not."""
    wide = b.cast(x, from_short("f32"))
    e = b.exp(wide - b.reduce("amax", wide, (-1,), keepdims=True))
    return b.cast(e / b.sum(e, (-1,), keepdims=True), x.dtype)


@case("f16[3,130]")
def softmax_half(b: Builder, x: Node) -> Node:
    wide = b.cast(x, from_short("f32"))
    e = b.exp(wide - b.reduce("amax", wide, (-1,), keepdims=True))
    return b.cast(e / b.sum(e, (-1,), keepdims=True), x.dtype)


@case("f32[2,9000]")
def sums_of_sums(b: Builder, x: Node) -> Any:
    return b.sum(x, (1,)), b.reduce("amin", x, (1,)), b.argmax(x, axes=(1,)), b.mean(x * x)


@case("f32[3,150,70]")
def tall_columns(b: Builder, x: Node) -> Any:
    centred = x - b.mean(x, (1,), keepdims=True)
    return b.sum(x, (1,)), b.argmin(x, axes=(1,)), b.reduce("amax", x, (1,)), b.mean(centred * centred, (1,))


@case("f32[4,7,9]")
def extremes_of_turned(b: Builder, x: Node) -> Any:
    """Positions that do not grow in the order of memory."""
    turned = b.max(b.min(b.transpose(x, (2, 0, 1)), 0.5), -0.5)  # many equals
    return b.argmax(turned, axes=(0, 1, 2)), b.argmin(turned, axes=(0, 2))


@case("i32[5,33]", "u8[5,40]", "i64[40,6]", "f64[3,50]", "bool[4,20]")
def extremes_of_types(b: Builder, i: Node, u: Node, long: Node, d: Node, t: Node) -> Any:
    found = [b.argmax(i, axes=(1,)), b.argmin(u, axes=(1,)), b.argmax(long, axes=(0,)), b.argmin(long, axes=(1,))]
    return [*found, b.argmax(d, axes=(1,)), b.argmax(t, axes=(1,)), b.reduce("amin", i, (1,)), b.amax(d, axes=(1,))]


@case("f32[12,16]")
def log_sum_exp(b: Builder, x: Node) -> Node:
    m = b.reduce("amax", x, (1,), keepdims=True)
    return b.log(b.sum(b.exp(x - m), (1,), keepdims=True)) + m


@case("f32[12,16]", "i32[12]")
def cross_entropy(b: Builder, x: Node, label: Node) -> Node:
    m = x - b.reduce("amax", x, (1,), keepdims=True)
    logp = m - b.log(b.sum(b.exp(m), (1,), keepdims=True))
    at = b.max(b.min(label, 15), 0)
    return b.neg(b.reshape(b.take_along(logp, b.reshape(at, (12, 1)), axis=1), (12,)))


@case("bool[9,11]")
def truths(b: Builder, x: Node) -> Any:
    return b.reduce("amax", x, (1,)), b.reduce("amin", x, (0,)), b.sum(b.cast(x, from_short("i32")))


@case("f32[0,3]")
def empty(b: Builder, x: Node) -> Any:
    return b.exp(x), b.sum(x, (0,)), b.reduce("amax", x, (0,))


@case("f32[7,1]")
def unit_axis(b: Builder, x: Node) -> Any:
    return b.sum(x, (1,)), x / b.sum(x, (1,), keepdims=True)


@case("f32[16,16]")
def two_reductions(b: Builder, x: Node) -> Any:
    rows = b.sum(x, (1,), keepdims=True)
    return x / rows, x / b.sum(x, (0,), keepdims=True)


# -- index


@case("f32[10,6]", "i32[4,5]")
def take(b: Builder, x: Node, i: Node) -> Any:
    t = b.take(x, b.max(b.min(i, 9), 0), axis=0)
    return t * 2.0, b.sum(t, (2,))


@case("f32[5,8,3]", "i64[4]")
def take_middle(b: Builder, x: Node, i: Node) -> Node:
    return b.take(b.exp(x), b.mod(i, 8), axis=1) + 1


@case("f32[6,9]", "i32[6,2]")
def take_along(b: Builder, x: Node, i: Node) -> Node:
    return b.take_along(x, b.max(b.min(i, 8), 0), axis=1) * 3


@case("f32[4,5,6]", "i32[4,5]")
def scatter(b: Builder, g: Node, i: Node) -> Node:
    return b.scatter_add(g, b.max(b.min(i, 7), 0), axis=0, extent=8) * 2


# -- matrix products


@case("f32[3,512]", "f32[256,512]", "f32[256]")
def dense(b: Builder, x: Node, w: Node, c: Node) -> Node:
    return b.max(b.dot(x, b.transpose(w, (1, 0))) * 0.05 + c, 0.0)


@case("f32[1,70]", "f32[33,70]", "f32[33]")
def dense_one(b: Builder, x: Node, w: Node, c: Node) -> Node:
    return b.tanh(b.dot(x, b.transpose(w, (1, 0))) + c)


@case("f32[6,20]", "f32[20,37]")
def product(b: Builder, x: Node, w: Node) -> Node:
    return b.dot(x, w)


@case("f32[96,200]", "f32[150,200]", "f32[150]")
def dense_large(b: Builder, x: Node, w: Node, c: Node) -> Node:
    return b.max(b.dot(x, b.transpose(w, (1, 0))) * 0.05 + c, 0.0)


@case("f32[2,3,4,5]", "f32[2,3,5,6]")
def batched(b: Builder, x: Node, w: Node) -> Node:
    return b.transpose(b.dot(x, w), (0, 2, 1, 3)) * 2.0


@case("f32[4,7,5]", "f32[4,9,5]")
def batched_transposed(b: Builder, x: Node, w: Node) -> Node:
    return b.dot(x, b.transpose(w, (0, 2, 1)))


@case("f64[4,6]", "f64[6,5]")
def product_double(b: Builder, x: Node, w: Node) -> Node:
    return b.dot(x, w) + 1


@case("f16[4,32]", "f16[6,32]")
def product_half(b: Builder, x: Node, w: Node) -> Node:
    return b.dot(x, b.transpose(w, (1, 0)))


@case("bf16[4,32]", "bf16[6,32]")
def product_bfloat16(b: Builder, x: Node, w: Node) -> Node:
    return b.dot(x, b.transpose(w, (1, 0)))


@case("f32[5,8]", "f32[8,8]", "f32[8,8]")
def two_layers(b: Builder, x: Node, w: Node, v: Node) -> Node:
    h = b.max(b.dot(x, w), 0.0)
    return b.dot(h, v) + h


@case("f32[2,3,8]", "f32[8,10]", "f32[10]")
def dense_of_sequence(b: Builder, x: Node, w: Node, c: Node) -> Node:
    y = b.reshape(b.dot(b.reshape(x, (6, 8)), w), (2, 3, 10))
    return b.max(y + c, 0.0)


@case("f32[3,3]", "f32[3,70]", "f32[3,2,5,7]")
def epilogue_of_other_axes(b: Builder, a: Node, w: Node, x: Node) -> Any:
    """Beside a product of two axes the kernel stores what it reads by four."""
    scaled = x * 0.25
    test = b.gt(scaled, 0.0)
    product = b.reshape(b.dot(a, w), (3, 2, 5, 7))
    return b.select(test, product, 0.0), scaled, test


@case("f16[2,264]", "f16[24,264]", "f16[24]")
def thin_half(b: Builder, x: Node, w: Node, c: Node) -> Node:
    return b.max(b.dot(x, b.transpose(w, (1, 0))) + c, 0.0)


@case("f32[9,20]", "f32[2,20,128]", "f32[256]")
def panels(b: Builder, x: Node, w: Node, c: Node) -> Node:
    """A weight in panels of columns; see passes/pack.py."""
    y = b.dot(b.broadcast(b.reshape(x, (1, 9, 20)), (2, 9, 20)), w)
    return b.max(b.reshape(b.transpose(y, (1, 0, 2)), (9, 256)) + c, 0.0)


@case("f32[3,136]", "f32[136,72]")
def thin_columns(b: Builder, x: Node, w: Node) -> Node:
    return b.dot(x, w) * 2.0


@case("i32[33,150]", "i32[150,50]", "i32[33,50]")
def tiled_product(b: Builder, x: Node, w: Node, r: Node) -> Node:
    return b.dot(x, w) + r


@case("f32[2,3,20,70]", "f32[2,3,18,70]")
def batched_patches(b: Builder, x: Node, w: Node) -> Node:
    return b.dot(x, b.transpose(w, (0, 1, 3, 2))) * 0.125


@case("f32[16,200]", "f32[200,3]")
def product_of_few_columns(b: Builder, x: Node, w: Node) -> Node:
    """Patches with more rows than columns."""
    return b.dot(x, w)


@case("f32[3,16,30]", "f32[3,30,200]")
def batched_blocks(b: Builder, x: Node, w: Node) -> Node:
    """Each product of a batch has several patches in both directions."""
    return b.dot(x, w) + 1.0


@case("f32[5,4]", "f32[4,3]")
def padded_operand(b: Builder, x: Node, w: Node) -> Node:
    return b.dot(b.pad(x, low=(0, 0), high=(1, 0), value=0.0), w)


@case("f32[0,4]", "f32[4,3]")
def empty_product(b: Builder, x: Node, w: Node) -> Node:
    return b.dot(x, w)


# operands that products compute as they load them


@case("f32[7,70]", "f32[70]", "f16[24,70]", "f32[24]")
def dense_of_made(b: Builder, x: Node, scale: Node, w: Node, c: Node) -> Node:
    """Both operands, the left one a row at a time, and a bias."""
    made = b.max(x * scale, 0.0)
    return b.dot(made, b.transpose(b.cast(w, x.dtype), (1, 0))) + c


@case("f32[37,2100]", "f32[2100,5]")
def product_of_many_made(b: Builder, x: Node, w: Node) -> Node:
    """Several panels of rows, of which the last is shorter."""
    return b.dot(b.abs(x) * 0.5, w)


@case("f32[3,9,24]", "f32[3,24,600]")
def batched_of_made(b: Builder, x: Node, w: Node) -> Node:
    """Matrices of a batch, and columns of which some are left over in the last panel."""
    return b.dot(x, b.abs(w) - 1.0)


@case("f32[2,3,5,6]", "f32[2,1,5,6]", "f32[2,3,6,4]")
def small_of_made(b: Builder, x: Node, r: Node, w: Node) -> Node:
    return b.dot(x * r, w)


@case("f32[10,48]", "i32[9]", "f32[9,48]", "f32[48,72]")
def product_of_rows(b: Builder, table: Node, at: Node, x: Node, w: Node) -> Node:
    """Gathered rows, and what is added to them."""
    return b.dot(b.take(table, b.max(b.min(at, 9), 0), axis=0) + x, w)


# -- convolutions


def _conv(b: Builder, x: Node, w: Node, groups: int = 1, stride: int = 1) -> Node:
    """Without padding: whether 0 times an infinite weight is added there is left open."""
    n = x.ndim - 2
    steps = {"stride": (stride,) * n, "dilate": (1,) * n, "base_dilate": (1,) * n}
    return b.conv(x, w, groups=groups, low=(0,) * n, high=(0,) * n, **steps)


@case("f32[2,4,30]", "f32[6,4,3]")
def convolved_line(b: Builder, x: Node, w: Node) -> Node:
    return b.max(_conv(b, x, w), 0.0)


@case("f32[2,4,12,16]", "f32[8,2,3,3]", "f32[8]")
def convolved(b: Builder, x: Node, w: Node, c: Node) -> Node:
    return b.tanh(_conv(b, x, w, groups=2) + b.reshape(c, (1, 8, 1, 1)))


@case("f32[1,2,5,6,16]", "f32[8,2,3,3,3]")
def convolved_volume(b: Builder, x: Node, w: Node) -> Node:
    return _conv(b, x, w, stride=2) * 0.5


@case("f32[2,4,12,16]", "f32[4,1,1]", "f32[4,1,1]", "f32[8,4,3,3]")
def convolved_of_made(b: Builder, x: Node, scale: Node, shift: Node, w: Node) -> Node:
    """A normalised and clipped image, as before the convolutions of a residual block."""
    return _conv(b, b.max(x * scale + shift, 0.0), w) * 0.5


@case("f32[2,4,12,16]", "f32[8,4,1,1]")
def thinned_of_made(b: Builder, x: Node, w: Node) -> Node:
    """Every other pixel."""
    return _conv(b, b.max(x, 0.0), w, stride=2)


@case("f32[1,2,5,6,16]", "f32[8,2,3,3,3]")
def convolved_volume_of_made(b: Builder, x: Node, w: Node) -> Node:
    return _conv(b, b.abs(x) * 0.5, w)


@case("f32[2,3,8]", "f32[4,3,3]")
def spread_line(b: Builder, x: Node, w: Node) -> Node:
    return b.conv(x, w, stride=(1,), low=(0,), high=(0,), dilate=(1,), base_dilate=(2,), groups=1)


@case("f32[2,6,5,7]", "f32[8,3,3,2]", "f32[8]")
def spread(b: Builder, x: Node, w: Node, c: Node) -> Node:
    """Zeros between elements, of which there are more along one axis; what follows knows the channel."""
    y = b.conv(x, w, stride=(1, 1), low=(0, 0), high=(0, 0), dilate=(1, 2), base_dilate=(2, 3), groups=2)
    return b.max(y + b.reshape(c, (1, 8, 1, 1)), 0.0)


def _finite(b: Builder, x: Node) -> Node:
    """What padding may be multiplied by."""
    return b.select(b.lt(b.abs(x), 100.0), x, 0.5)


@case("f32[2,4,5,7,13]", "f32[6,2,2,3,2]", "f32[2,6,1,1,1]", "f32[2,1,1]")
def convolved_uneven(b: Builder, x: Node, w: Node, r: Node, d: Node) -> Node:
    """No two axes alike; what follows knows the depth."""
    steps = {"stride": (2, 1, 3), "low": (0, 2, 1), "high": (1, 0, 2), "dilate": (3, 1, 2)}
    return b.conv(x, _finite(b, w), groups=2, base_dilate=(1, 1, 1), **steps) * d + r


@case("f32[2,4,3,5,4]", "f32[6,2,2,3,2]", "f32[2,6,5,7,1]")
def spread_uneven(b: Builder, x: Node, w: Node, r: Node) -> Node:
    steps = {"stride": (1, 2, 1), "low": (1, 0, 2), "high": (0, 1, 3), "dilate": (1, 2, 1)}
    return b.conv(x, _finite(b, w), groups=2, base_dilate=(2, 4, 3), **steps) + r


@case("f32[2,4,9,4]", "f32[6,4,3,2]", "f32[2,1,19,1]")
def spread_tall(b: Builder, x: Node, w: Node, r: Node) -> Node:
    steps = {"stride": (1, 1), "low": (3, 0), "high": (1, 1), "dilate": (1, 2)}
    return b.conv(x, _finite(b, w), groups=1, base_dilate=(2, 3), **steps) * r


@case("f64[1,128,100,2]", "f64[1,128,2,2]")
def spread_in_bands(b: Builder, x: Node, w: Node) -> Node:
    """So many channels that a copy has room for some rows only."""
    return b.conv(x, w, stride=(1, 1), low=(0, 0), high=(0, 0), dilate=(1, 1), base_dilate=(2, 2), groups=1)


@case("f32[1,2,9,8]", "f32[8,2,3,3]")
def spread_in_tiles(b: Builder, x: Node, w: Node) -> Node:
    """Vectors of a phase that two tiles share unevenly."""
    steps = {"stride": (1, 1), "low": (1, 1), "high": (2, 2), "dilate": (1, 1)}
    return b.conv(x, _finite(b, w), groups=1, base_dilate=(2, 2), **steps)


def _slope(b: Builder, x: Node, g: Node, **params: Any) -> Node:
    """The derivative of a convolution by its weight, channels of the operand first."""
    n = x.ndim - 2
    swap = (1, 0, *range(2, x.ndim))
    ones, zeros = (1,) * n, (0,) * n
    steps = {"stride": ones, "dilate": ones, "base_dilate": ones, "low": zeros, "high": zeros}
    return b.conv(b.transpose(x, swap), b.transpose(g, swap), **{**steps, "groups": 1, **params})


@case("f32[3,2,20]", "f32[3,6,18]")
def slope_line(b: Builder, x: Node, g: Node) -> Node:
    return _slope(b, x, g)


@case("f32[3,4,9,9]", "f32[3,8,7,7]", "f32[8,4,3,3]")
def slope(b: Builder, x: Node, g: Node, w: Node) -> Node:
    """With weight decay; of operands that are computed first."""
    made = _slope(b, b.max(x, 0.0), g * 2.0)
    return b.transpose(made, (1, 0, 2, 3)) + w * 0.01


@case("f32[2,4,5,6,7]", "f32[2,8,5,6,7]", "f32[8]")
def slope_volume(b: Builder, x: Node, g: Node, c: Node) -> Node:
    """One element of every window; what follows knows the channel."""
    return _slope(b, x, g) * b.reshape(c, (1, 8, 1, 1, 1))


@case("f32[2,4,9,7,8]", "f32[2,8,3,5,4]", "f32[2,1,1]")
def slope_uneven(b: Builder, x: Node, g: Node, d: Node) -> Node:
    """No two axes alike: of a convolution with strides and dilations."""
    steps = {"stride": (3, 1, 2), "dilate": (3, 1, 2), "low": (1, 0, 2), "high": (0, 1, 1)}
    return _slope(b, x, _finite(b, g), **steps) * d


def _windows(b: Builder, x: Node, kernel: tuple[int, ...], stride: tuple[int, ...], dilate: tuple[int, ...]) -> Node:
    n = len(kernel)
    extents = zip(x.shape[-n:], kernel, stride, dilate, strict=True)
    extent = tuple((d - (k - 1) * e - 1) // s + 1 for d, k, s, e in extents)
    wide = b.broadcast(b.reshape(x, (1,) * n + x.shape), (*kernel, *x.shape))
    return b.windows(wide, stride=stride, dilate=dilate, extent=extent)


@case("f32[2,128,5,7]", "f32[9,128,1,1]", "f32[6,137,1,1]")
def convolved_pixels(b: Builder, x: Node, w: Node, v: Node) -> Node:
    """Windows of one element: the number of channels is an argument."""
    y = b.max(_conv(b, x, w), 0.0)
    return _conv(b, b.concat([x, y], 1), v)


@case("f32[3,40]")
def many_kernels(b: Builder, x: Node) -> list[Node]:
    """So many different ones that they are compiled in several units."""
    results = []
    for n in range(2, 16):
        y = b.slice(x, (0, 0), (3, n))
        for _ in range(n):
            y = b.tanh(y)
        results.append(b.sum(y, (1,)))
    return results


@case("f32[2,3,9,8]")
def max_pool(b: Builder, x: Node) -> Node:
    padded = b.pad(x, low=(0, 0, 1, 0), high=(0, 0, 1, 1), value=float("-inf"))
    return b.amax(_windows(b, b.max(padded, 0.5), (3, 2), (2, 1), (1, 1)), axes=(0, 1))


@case("f32[2,17]")
def dilated_windows(b: Builder, x: Node) -> list[Node]:
    taken = _windows(b, x, (3,), (2,), (3,))
    return [b.sum(taken, (0,)), b.argmax(taken, axes=(0,))]


@case("f32[3,2,2,4,5]")
def windows_put_back(b: Builder, x: Node) -> Node:
    back = b.unwindows(x, stride=(2, 3), dilate=(1, 2), extent=(10, 15))
    return b.sum(back, (0, 1)) * 2.0


@case("f32[2,3,8,12]", "f32[2,3,4,6]")
def windows_apart(b: Builder, x: Node, g: Node) -> Node:
    """A pooling's derivative where windows do not overlap, and that of what was before it."""
    y = b.tanh(x)
    best = b.argmax(_windows(b, y, (2, 2), (2, 2), (1, 1)), axes=(0, 1))
    shape = (2, 2, *g.shape)
    place = b.iota(shape, 1, i64) + b.iota(shape, 0, i64) * 2
    chosen = b.eq(place, b.broadcast(b.reshape(best, (1, 1, *g.shape)), shape))
    given = b.select(chosen, b.broadcast(b.reshape(g, (1, 1, *g.shape)), shape), 0.0)
    back = b.sum(b.unwindows(given, stride=(2, 2), dilate=(1, 1), extent=(8, 12)), (0, 1))
    return back * (1.0 - y * y)


@case("f32[2,3,12,40]")
def windows_over_the_border(b: Builder, x: Node) -> Any:
    """Pools of which only windows at the border meet the padding."""
    padded = b.pad(x * 0.5, low=(0, 0, 1, 1), high=(0, 0, 1, 1), value=0.0)
    taken = _windows(b, padded, (3, 3), (2, 2), (1, 1))
    return b.max(b.amax(taken, axes=(0, 1)), 0.0) - b.sum(taken, (0, 1)) * 0.125


@case("f32[2,3,12,40]", "f32[2,3,6,20]")
def windows_over_each_other(b: Builder, x: Node, g: Node) -> Node:
    """A pooling's derivative where windows overlap."""
    padded = b.pad(x, low=(0, 0, 1, 1), high=(0, 0, 1, 1), value=-1.0)
    best = b.argmax(_windows(b, padded, (3, 3), (2, 2), (1, 1)), axes=(0, 1))
    shape = (3, 3, *g.shape)
    place = b.iota(shape, 1, i64) + b.iota(shape, 0, i64) * 3
    chosen = b.eq(place, b.broadcast(b.reshape(best, (1, 1, *g.shape)), shape))
    given = b.select(chosen, b.broadcast(b.reshape(g, (1, 1, *g.shape)), shape), 0.0)
    back = b.sum(b.unwindows(given, stride=(2, 2), dilate=(1, 1), extent=(14, 42)), (0, 1))
    return b.slice(back, (0, 0, 1, 1), (2, 3, 13, 41), (1, 1, 1, 1))


@case("f32[2,5,210]")
def wide_windows_apart(b: Builder, x: Node) -> Node:
    """More windows in a row than a tile has."""
    return b.amax(_windows(b, b.exp(x), (3,), (3,), (1,)), axes=(0,))


@case("f32[4,6]")
def reversed_and_taken_apart(b: Builder, x: Node) -> Node:
    """Quotients of a falling index: rounding towards zero would be wrong."""
    line = b.reverse(b.reshape(b.transpose(x, (1, 0)), (24,)), axes=(0,))
    return b.max(line, 0.0)


#: what the compiler should make of some: kinds of kernels in order
# -- tiles, joins and rows of every width


@case("f32[45,70]", "f32[70]", "f32[70,45]")
def tiled(b: Builder, x: Node, y: Node, z: Node) -> Any:
    t = b.max(b.transpose(x, (1, 0)), 0.0)
    return t + z, t * b.broadcast(b.reshape(y, (70, 1)), (70, 45))


@case("f32[3,40,33]", "f32[3,40,33]", "f64[33]")
def tiled_batches(b: Builder, x: Node, y: Node, z: Node) -> Node:
    s = b.transpose(x, (0, 2, 1)) - b.transpose(y, (0, 2, 1))
    return b.cast(s, from_short("f64")) * b.reshape(z, (33, 1))


@case("f64[200,24]")
def tiled_long(b: Builder, x: Node) -> Node:
    return b.max(b.transpose(x, (1, 0)), 0.0)


@case("f32[64,48]")
def tiled_on_the_way_out(b: Builder, x: Node) -> Any:
    e = b.exp(x)
    return e, b.transpose(e * 2.0, (1, 0))


@case("f64[64,48]", "u32[4]")
def tiled_mask(b: Builder, x: Node, state: Node) -> Node:
    """Random bits in a tile, and joined with something else: the same ones at the same places."""
    t = random_mask(b, b.transpose(x, (1, 0)), state)
    return b.concat([t, b.transpose(random_mask(b, x, state), (1, 0))], 0)


@case("f32[64,48]", "f32[48,64]")
def tiled_both_ways(b: Builder, x: Node, y: Node) -> Any:
    s = x + b.transpose(y, (1, 0))
    return s, b.transpose(b.exp(s), (1, 0)), s * 2.0


@case("f16[64,96]", "f16[96,64]")
def tiled_halves(b: Builder, x: Node, y: Node) -> Any:
    s = b.transpose(x, (1, 0)) * y
    return s, b.transpose(s * 2.0, (1, 0))


@case("f16[2,33,40]", "bf16[2,33,40]")
def moved_halves(b: Builder, x: Node, y: Node) -> Any:
    return b.transpose(x, (0, 2, 1)), b.pad(b.concat([y, y], 2), low=(0, 0, 1), high=(0, 0, 2), value=3.0)


@case("u8[16,8,64]")
def tiled_bytes(b: Builder, x: Node) -> Node:
    return b.transpose(x, (0, 2, 1)) + 1


@case("f32[4,6,9,5,8]")
def permuted(b: Builder, x: Node) -> Node:
    return b.exp(b.transpose(x, (0, 4, 2, 1, 3)))


@case("f32[4,3,20,20]", "f32[3]")
def channels_last(b: Builder, x: Node, y: Node) -> Node:
    return b.transpose(x, (0, 2, 3, 1)) * y


@case("f32[2,20,30,3]")
def channels_first(b: Builder, x: Node) -> Node:
    return b.transpose(x, (0, 3, 1, 2)) / 255.0


@case("f32[40,64]", "f32[40,100]", "f32[36,40]")
def wide_joins(b: Builder, x: Node, y: Node, z: Node) -> Any:
    return b.tanh(b.concat([x, y * 2.0, b.transpose(z, (1, 0))], 1))


@case("f32[40,64]", "f32[7,64]", "f32[50,64]")
def joined_rows(b: Builder, x: Node, y: Node, z: Node) -> Node:
    return b.exp(b.concat([x, y, z], 0))


@case("f32[80,70]", "f32[70,50]")
def joined_on_the_way_out(b: Builder, x: Node, y: Node) -> Any:
    j = b.concat([b.transpose(x, (1, 0)), y], 1)
    return b.transpose(j, (1, 0)), j


@case("f32[6,30,50]")
def wide_pad(b: Builder, x: Node) -> Node:
    return b.pad(x, low=(0, 1, 1), high=(0, 1, 1), value=3.0) * 2.0


@case("f32[300]", "f32[300]", "f32[300]")
def stacked(b: Builder, x: Node, y: Node, z: Node) -> Node:
    return b.concat([b.reshape(v, (300, 1)) for v in (x, y, z)], 1)


@case("f32[9,1023]", "f32[1023]", "f32[9,1023]")
def odd_rows(b: Builder, x: Node, y: Node, z: Node) -> Node:
    return b.max(x + y, 0.0) * z


@case("f16[5,50]", "f16[50]")
def odd_rows_of_halves(b: Builder, x: Node, y: Node) -> Node:
    return x * y


@case("f32[40,30]", "f32[1001]", "f32[5]", "f32[40,30]", "f32[1001]", "f32[5]", "f16[2000]", "f32[3,8]", "f32[8]")
def steps_of_many(b: Builder, *x: Node) -> Any:
    """Kernels of several texts over arrays of several shapes, which share a launch on CUDA."""
    steps = [w - b.min(b.max(g, -1.0), 1.0) * 0.1 for w, g in zip(x[:3], x[3:6])]
    return [*steps, x[6] * 2.0, x[7] + x[8], b.slice(x[1], (1,), (1001,), (3,))]


@case("f32[40,30]", "f32[1001]")
def steps_alike(b: Builder, *x: Node) -> Any:
    return [b.max(w, 0.0) for w in x]


@case("f32[9,1024]", "f32[9,1001]")
def odd_slices(b: Builder, x: Node, y: Node) -> Any:
    return b.exp(b.slice(x, (0, 3), (9, 1003))) + b.slice(y, (0, 1), (9, 1001))


@case("f16[60,48]", "f32[60,48]")
def computed_twice(b: Builder, x: Node, g: Node) -> Any:
    """Rows and columns of one product cannot share a kernel: each multiplies for itself, nothing is written between."""
    y = b.max(b.cast(x, g.dtype) * g, 0.0)
    return softmax(b, y), b.sum(y, (0,)), b.transpose(y, (1, 0)) + 1.0


@case("f32[6,300]", "f32[6,200]", "f32[6,100]")
def joined_functions(b: Builder, x: Node, y: Node, z: Node) -> Node:
    """Each operand is computed in its own loop of the join."""
    return b.concat([b.tanh(x), b.exp(y), b.log(b.abs(z))], 1) * 2.0


# -- means and variances of what does not stay on chip


def _moments(b: Builder, x: Node, axis: int) -> Any:
    mean = b.mean(x, (axis,), keepdims=True)
    return mean, b.mean((x - mean) * (x - mean), (axis,))


@case("f32[2,8192]", shared_bytes=16 << 10, cluster_blocks=1, launch_seconds=1e-9)
def moments_of_rows(b: Builder, x: Node) -> Any:
    return _moments(b, x, 1)


@case("f32[1009,40]", shared_bytes=16 << 10, cluster_blocks=1, launch_seconds=1e-9)
def moments_of_columns(b: Builder, x: Node) -> Any:
    """Of a prime number of rows: the last part is shorter."""
    return _moments(b, x, 0)


# -- several kernels as steps of one


def layer(b: Builder, x: Node, w: Node, bias: Node) -> Node:
    return b.dot(x, b.transpose(w, (1, 0))) + bias


@case(
    "f32[16,64]",
    *("f32[128,64]", "f32[128]"),
    *("f32[64,128]", "f32[64]"),
    *("f32[10,64]", "f32[10]"),
    resident="always",
)
def steps_mlp(b: Builder, x: Node, *p: Node) -> Node:
    for k in (0, 2):
        x = b.max(layer(b, x, *p[k : k + 2]), 0.0)
    return softmax(b, layer(b, x, *p[4:]))


@case("f32[3,20]", "f32[3,16]", "f32[3,16]", "f32[64,20]", "f32[64,16]", "f32[64]", resident="always")
def steps_lstm(b: Builder, x: Node, h: Node, c: Node, wx: Node, wh: Node, bias: Node) -> Any:
    gates = layer(b, x, wx, bias) + b.dot(h, b.transpose(wh, (1, 0)))
    i, f, g, o = (b.slice(gates, (0, 16 * k), (3, 16 * (k + 1))) for k in range(4))
    kept = b.sigmoid(f) * c + b.sigmoid(i) * b.tanh(g)
    return b.sigmoid(o) * b.tanh(kept), kept


@case("f32[4,3,12,12]", "f32[6,3,3,3]", "f32[6]", "f32[10,150]", "f32[10]", resident="always")
def steps_lenet(b: Builder, x: Node, w: Node, bias: Node, dense: Node, last: Node) -> Node:
    y = b.tanh(_conv(b, x, w) + b.reshape(bias, (6, 1, 1)))
    y = b.reduce("amax", b.reshape(y, (4, 6, 5, 2, 5, 2)), (3, 5))
    return softmax(b, layer(b, b.reshape(y, (4, 150)), dense, last))


@case("f32[300,40]", resident="always")
def steps_bare(b: Builder, x: Node) -> Node:
    """Steps without shared memory."""
    return b.reverse(softmax(b, x), axes=(0,)) * 2.0


@case("f32[5,3000]", resident="always")
def steps_of_long_rows(b: Builder, x: Node) -> Any:
    """A row a block, whose warps meet in the memory that all steps share."""
    return b.reverse(softmax(b, x), axes=(0,)) * 2.0, b.sum(x * x, (1,))


@case("f32[9,3000]", "f32[96,80]", resident="always")
def steps_in_one_memory(b: Builder, x: Node, y: Node) -> Any:
    """Steps of a phase that use the same shared memory one after the other."""
    return softmax(b, x), b.transpose(b.exp(y), (1, 0))


@case("f32[3,8,16]", "f32[3,16,40]", resident="always")
def steps_of_batches(b: Builder, x: Node, y: Node) -> Any:
    """Blocks beyond the last matrix would read something else."""
    return b.reverse(b.dot(b.abs(x), y), axes=(0,)) * 2.0


@case("f32[64,4]", "f32[40,4]", resident="always")
def steps_narrow(b: Builder, x: Node, w: Node) -> Any:
    """A step whose threads are less than a warp, and wait for each other."""
    total = b.sum(x * x, (0,))
    return total, b.dot(x, b.transpose(w, (1, 0))) * b.sum(total, (0,))


@case("f32[16,20]", "f32[16,12]")
def slope_of_dense(b: Builder, x: Node, g: Node) -> Node:
    """A sum over the batch, whose extent is an argument of the CPU's kernel."""
    return b.dot(b.transpose(x, (1, 0)), g)


@case("f32[6,10]", "f32[6,40]")
def slope_of_zeros(b: Builder, g: Node, h: Node) -> Node:
    """The same with one constant for all elements of an operand, as a recurrent cell's first state has."""
    return b.dot(b.full((30, 6), 0.5, g.dtype), g) + b.sum(h)


@case("f32[9,6]")
def share_of_rows(b: Builder, x: Node) -> Node:
    """Bits of a constant are an argument."""
    return b.tanh(x) * Share(9)


@case("f32[7,6]", "f64[9,5]", "f32[11,4]")
def shares(b: Builder, x: Node, y: Node, z: Node) -> Any:
    """The same in kernels that share a launch."""
    return b.tanh(x) * Share(7), b.tanh(y) * Share(9), b.tanh(z) * Share(11)


@case("f32[96,80]", "f32[96,80]", "f32[80,96]", "f32[70,300]", resident="always")
def steps_apart(b: Builder, x: Node, y: Node, z: Node, r: Node) -> Any:
    """Steps that do not depend on each other share a phase; a later one reads what several wrote."""
    turned = b.transpose(b.exp(x), (1, 0)) + z
    columns = b.sum(y * x, (0,))
    rows = softmax(b, r)
    return turned, columns, rows, b.dot(turned, y) + columns


@case("f16[5,64]", "f16[32,64]", "f16[16,32]", resident="always")
def steps_halves(b: Builder, x: Node, w: Node, v: Node) -> Node:
    h = b.tanh(b.dot(x, b.transpose(w, (1, 0))) * 0.1)
    return b.tanh(b.dot(h, b.transpose(v, (1, 0))) * 0.1)


@case("f32[20,64]", "f32[48,64]", "f32[40,48]", "f32[24,48]", "f32[40,24]", resident="always")
def steps_heads(b: Builder, x: Node, w: Node, left: Node, right: Node, scale: Node) -> Any:
    """Two products of a phase, of which the first finds its weight in shared memory; a whole array is read later."""
    h = b.tanh(b.dot(x, b.transpose(w, (1, 0))))
    y, z = (b.dot(h, b.transpose(v, (1, 0))) for v in (left, right))
    return y, b.sum(y, (0,)), b.tanh(z), b.dot(y, scale)


EXPECTED: dict[str, list[str]] = {
    "chain": ["map"],
    "bias": ["map"],
    "softmax": ["rows"],
    "softmax_middle": ["rows"],
    "layer_norm": ["rows"],
    "batch_norm": ["rows", "reduce"],
    "group_norm": ["rows"],
    "log_sum_exp": ["reduce"],
    "cross_entropy": ["reduce"],
    "several_outputs": ["rows"],
    "dense": ["matmul"],
    "dense_of_sequence": ["matmul"],
    "epilogue_of_other_axes": ["matmul"],
    "dense_of_made": ["matmul"],
    "batched_of_made": ["matmul"],
    "convolved_of_made": ["conv"],
    "thinned_of_made": ["conv"],
    "convolved_volume_of_made": ["conv"],
    "take": ["rows"],
    "narrow_rows": ["rows"],
    "max_pool": ["reduce"],
    "windows_put_back": ["map"],
    "windows_apart": ["rows"],
    "wide_windows_apart": ["reduce"],
    "windows_over_the_border": ["reduce"],
    "windows_over_each_other": ["map", "map"],
    "convolved": ["conv"],
    "convolved_line": ["conv"],
    "spread_line": ["conv"],
    "spread": ["conv"],
    "slope_line": ["conv"],
    "slope": ["map", "map", "conv"],
    "slope_volume": ["conv"],
    "moments_of_rows": ["reduce"],  # (on the CPU they do stay near)
    "moments_of_columns": ["reduce"],
    "many_kernels": ["reduce"] * 14,
}
