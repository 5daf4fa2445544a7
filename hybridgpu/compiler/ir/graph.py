# SPDX-License-Identifier: Apache-2.0
"""Nodes, graphs, and the builder that records them.

A :class:`Node` is one application of a :class:`Primitive`: immutable, typed, and hash-consed by its
:class:`Builder` (building the same thing twice gives the same node). A :class:`Graph` is a list of
nodes in topological order with named inputs and a tuple of outputs.

Lowering functions are written against a builder and read like array code::

    def layer_norm(b, x):
        mean = b.mean(x, axes=(-1,), keepdims=True)
        return (x - mean) * b.rsqrt(...)

``b.exp(x)`` applies the primitive ``exp``; Python numbers become constants of the other operand's
type; binary primitives broadcast as NumPy does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn, TypeVar

from ...base import MXNetError
from ...core.dataclass import dataclass, field
from ...core.dtypes import DType, f32, u32
from .dim_texts import report_text
from .dims import Dim
from .dynamic_constants import DynamicFloat, LastIndex, float_of_extent, reciprocal
from .types import TensorType, tensor_type

__all__ = [
    "NO_DERIVATIVE",
    "RANDOM_STATE",
    "Builder",
    "Graph",
    "Node",
    "Primitive",
    "Provenance",
    "closure",
    "is_random_state",
    "not_differentiable",
    "reachable",
]

T = TypeVar("T")

Params = Mapping[str, Any]
RANDOM_STATE = "random_state"  #: name of the argument that holds the generator's state
NO_DERIVATIVE = "no derivative"  #: written in a primitive's row where its derivative is zero or undefined


def not_differentiable(operator: str, hint: str) -> Callable[..., NoReturn]:
    """The derivative of a primitive which stands for an operator of MXNet that has none: it raises MXNet's error."""

    def vjp(*args: Any) -> NoReturn:
        raise MXNetError(
            f"Operator {operator} is non-differentiable because it didn't register FGradient attribute.\n{hint}"
        )

    return vjp


@dataclass(frozen=True, eq=False, slots=True)
class Primitive:
    """One row of the primitive table (``compiler/primitives``).

    Attributes:
        name: unique; also the builder method and the printed name.
        family: leaf, elementwise, view, reduce, contract, index, library.
        infer: (input types, params) -> output type; raises TypeError on misuse.
        evaluate: (xp, inputs, params, output type) -> array; the meaning of the primitive. If it has a method
            ``prepare``, (xp, shapes of inputs, params, output type) -> a function of the inputs that gives the same.
        expr: elementwise only: C expression with {0}, {1} … and {T} (compute type), or a function
            of the input and output dtypes that returns one.
        vjp: (b, g, y, inputs, params) -> one cotangent (or None) per input, or NO_DERIVATIVE.
        cost: rough scalar operations an element; decides about recomputation.
        doc: one line.
        checks: whether ``evaluate`` raises errors, on a host, for values that kernels give a result for.
        jumps: whether results jump where operands hardly change, as of ``floor``; so do casts to whole numbers and bool.
        moves: whether it only moves elements, besides leaves and views: array libraries do that in any type.
        allocates: views only: whether ``evaluate`` makes a new array.
        numpy_slow: whether NumPy makes no more than a third of what memory gives, though operations are few.
        series: whether ``evaluate`` is a series of some 20 calls, for lack of a function of NumPy.
    """

    name: str
    family: str
    infer: Callable[[Sequence[TensorType], Params], TensorType]
    evaluate: Callable[[Any, Sequence[Any], Params, TensorType], Any]
    vjp: Callable[..., Sequence[Node | None]] | str
    expr: str | Callable[..., str] | None = None
    cost: int = 1
    doc: str = ""
    checks: bool = False
    jumps: bool = False
    moves: bool = False
    allocates: bool = False
    numpy_slow: bool = False
    series: bool = False

    def __repr__(self) -> str:
        return self.name


class Provenance(NamedTuple):
    """The origin of a node: the operator, its node name in the Symbol, the user's file:line."""

    op: str
    name: str
    line: str = ""


class Node:
    """One typed value. Created by a Builder only; compare with ``is``."""

    __slots__ = ("builder", "index", "inputs", "params", "prim", "prov", "type")

    def __init__(
        self,
        builder: Builder,
        prim: Primitive,
        inputs: tuple[Node, ...],
        params: dict[str, Any],
        type: TensorType,
        index: int,
        prov: Provenance | None,
    ) -> None:
        self.builder, self.prim, self.inputs, self.params = builder, prim, inputs, params
        self.type, self.index, self.prov = type, index, prov

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def ndim(self) -> int:
        return len(self.type.shape)

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def size(self) -> int:
        return self.type.size

    def __repr__(self) -> str:
        args = ", ".join(f"%{i.index}" for i in self.inputs)
        params = " ".join(f"{k}={v!r}" for k, v in self.params.items())
        return f"%{self.index} = {self.prim.name}({args}) {params} {self.type!r}"

    def __add__(self, other: Any) -> Node:
        return self.builder.add(self, other)

    def __radd__(self, other: Any) -> Node:
        return self.builder.add(other, self)

    def __sub__(self, other: Any) -> Node:
        return self.builder.sub(self, other)

    def __rsub__(self, other: Any) -> Node:
        return self.builder.sub(other, self)

    def __mul__(self, other: Any) -> Node:
        return self.builder.mul(self, other)

    def __rmul__(self, other: Any) -> Node:
        return self.builder.mul(other, self)

    def __truediv__(self, other: Any) -> Node:
        return self.builder.div(self, other)

    def __rtruediv__(self, other: Any) -> Node:
        return self.builder.div(other, self)

    def __neg__(self) -> Node:
        return self.builder.neg(self)


@dataclass(eq=False)
class Graph:
    """A finished graph.

    Attributes:
        name: for printing.
        inputs: nodes of the primitive ``input``, in argument order (an input may be unused).
        outputs: the results.
        nodes: every node that an output needs, and all inputs, in topological order.
    """

    name: str
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    nodes: tuple[Node, ...] = field(default=())

    def __post_init__(self) -> None:
        if not self.nodes:
            self.nodes = tuple(reachable(self.outputs, self.inputs))

    def __repr__(self) -> str:
        return f"<graph {self.name} of {len(self.nodes)} nodes>"

    @property
    def draws(self) -> bool:
        """Whether it takes the state of the random generator."""
        return any(map(is_random_state, self.inputs))

    def equals(self, other: Graph) -> bool:
        """Whether ``other`` has the same nodes in the same order, provenance aside."""
        if len(self.nodes) != len(other.nodes):
            return False
        mine = {n: k for k, n in enumerate(self.nodes)}
        theirs = {n: k for k, n in enumerate(other.nodes)}
        for x, y in zip(self.nodes, other.nodes, strict=True):
            if x.prim is not y.prim or x.type is not y.type or x.params != y.params:
                return False
            if [mine[i] for i in x.inputs] != [theirs[i] for i in y.inputs]:
                return False
        return [mine[o] for o in self.outputs] == [theirs[o] for o in other.outputs]

    def uses(self) -> dict[Node, list[Node]]:
        """Node -> its consumers, once per operand position."""
        table: dict[Node, list[Node]] = {n: [] for n in self.nodes}
        for n in self.nodes:
            for i in n.inputs:
                table[i].append(n)
        return table

    def __str__(self) -> str:
        from .text import print_graph

        return print_graph(self)


def is_random_state(node: Node) -> bool:
    """Whether an input is the state of the random generator, and no user's variable of that name."""
    return node.params["name"] == RANDOM_STATE and node.dtype is u32


def reachable(outputs: Iterable[Node], inputs: Iterable[Node] = ()) -> list[Node]:
    """Inputs, then everything that ``outputs`` need, in creation order (which is topological)."""
    return sorted(closure(outputs, lambda n: n.inputs).union(inputs), key=lambda n: n.index)


def closure(wanted: Iterable[T], operands: Callable[[T], Iterable[T]]) -> set[T]:
    """``wanted``, their ``operands``, the operands of these, and so on; without recursion."""
    found = set(wanted)
    stack = list(found)
    while stack:
        for x in operands(stack.pop()):
            if x not in found:
                found.add(x)
                stack.append(x)
    return found


class Builder:
    """Records primitives into one graph.

    Args:
        primitives: the primitive table, name -> row (see ``compiler.primitives.TABLE``).
        training: what operators that behave differently in training look at.
        streams: of random numbers that graphs before this one have.

    Attributes:
        streams: with those of this graph.
    """

    def __init__(self, primitives: Mapping[str, Primitive], training: bool = False, streams: int = 0) -> None:
        self._table = primitives
        self._memo: dict[Any, Node] = {}
        self._count = 0
        self.training = training
        self.prov: Provenance | None = None
        self.inputs: list[Node] = []
        self._state: Node | None = None
        self.streams = streams
        self._rounded: frozenset[Node] = frozenset()
        self._end, self._limited = sys.maxsize, ""

    @contextmanager
    def limited(self, what: str, nodes: int) -> Iterator[None]:
        """While entered, ``what`` may record so many nodes."""
        before = (self._end, self._limited)
        self._end, self._limited = self._count + nodes, what
        try:
            yield
        finally:
            self._end, self._limited = before

    def reserve(self, nodes: int) -> None:
        """Say that so many nodes follow, before the work for the first one begins.

        Raises:
            MXNetError: they are more than the limit leaves.
        """
        if self._count + nodes > self._end:
            raise MXNetError(f"{self._limited} unrolls into too many steps: its attributes ask for {nodes} more")

    @contextmanager
    def of_operator(self, operands: Sequence[Node]) -> Iterator[None]:
        """While entered, an operator is lowered: what jumps gets operands of two bytes rounded, as eager operators store them.

        What the operator computes on the way stays unrounded, as it does there.
        """
        before, self._rounded = self._rounded, frozenset(x for x in operands if x.dtype.is_half and x.inputs)
        try:
            yield
        finally:
            self._rounded = before

    def _as_stored(self, x: Node) -> Node:
        """An operand of the operator, or a view of one, rounded; others as they are."""
        source = x
        while source not in self._rounded and source.prim.family == "view" and len(source.inputs) == 1:
            source = source.inputs[0]
        return self.cast(self.cast(x, f32), x.dtype) if source in self._rounded else x

    def apply(self, prim: Primitive, inputs: Sequence[Node], params: dict[str, Any]) -> Node:
        """The node ``prim(*inputs, **params)``, new or recorded before."""
        if self._rounded and (prim.jumps or (prim.name == "cast" and not params["dtype"].is_float)):
            inputs = [self._as_stored(x) for x in inputs]
        return self._node(prim, inputs, params, None)

    def reapply(self, node: Node, inputs: Sequence[Node]) -> Node:
        """The operation of ``node``, maybe of another graph, on other operands."""
        alike = [x.type for x in inputs] == [x.type for x in node.inputs]  # types are interned
        return self._node(node.prim, inputs, node.params, node.type if alike else None)

    def _node(
        self, prim: Primitive, inputs: Sequence[Node], params: dict[str, Any], known_type: TensorType | None
    ) -> Node:
        """A node as of :meth:`apply`; ``known_type``: the type that the primitive infers, if somebody knows it."""
        items = tuple(params.items()) if len(params) < 2 else tuple(sorted(params.items()))
        key: tuple[Any, ...] = (prim, tuple([i.index for i in inputs]), items)
        # 0.0 == -0.0 and 1 == 1.0 and True == 1: the constant's text tells them apart
        if "value" in params:
            value = params["value"]
            key += report_text(value), None if type(value) is Dim else getattr(value, "count", None)
        cached = self._memo.get(key)
        if cached is not None:
            return cached
        out = prim.infer([i.type for i in inputs], params) if known_type is None else known_type
        if self._count >= self._end:
            self.reserve(1)
        node = Node(self, prim, tuple(inputs), params, out, self._count, self.prov)
        self._count += 1
        self._memo[key] = node
        return node

    def __getattr__(self, name: str) -> Callable[..., Node]:
        try:
            prim = self._table[name]
        except KeyError:
            from difflib import get_close_matches

            near = ", ".join(map(repr, get_close_matches(name, self._table, 4, 0.5)))
            raise AttributeError(f"there is no primitive {name!r}{near and f'; similar names: {near}'}") from None
        if prim.family == "elementwise":

            def method(*args: Any, **params: Any) -> Node:
                return self.apply(prim, self.unify(args), params)
        else:

            def method(*args: Any, **params: Any) -> Node:
                return self.apply(prim, args, params)

        self.__dict__[name] = method  # next time without __getattr__
        return method

    def nested(self) -> Builder:
        """A new builder over the same table, for the body of a loop."""
        return Builder(self._table, self.training)

    # -- leaves

    def input(self, type: TensorType, name: str = "") -> Node:
        """The next argument of the graph. Every call makes a new one."""
        node = self.apply(self._table["input"], (), {"position": len(self.inputs), "name": name, "type": type})
        self.inputs.append(node)
        return node

    def full(self, shape: tuple[int, ...], value: Any, dtype: DType) -> Node:
        """A constant tensor with one value, converted to ``dtype`` as NumPy converts."""
        return self.apply(
            self._table["full"], (), {"value": to_scalar(value, dtype), "type": tensor_type(tuple(shape), dtype)}
        )

    def full_like(self, x: Node, value: Any) -> Node:
        return self.full(x.shape, value, x.dtype)

    def iota(self, shape: tuple[int, ...], axis: int, dtype: DType) -> Node:
        """Indices along ``axis``."""
        return self.apply(self._table["iota"], (), {"axis": axis, "type": tensor_type(tuple(shape), dtype)})

    def draw(self, name: str, *operands: Node, **params: Any) -> Node:
        """Apply a random primitive: its first operand is the state of the generator, its stream a fresh one.

        The graph gets an argument named RANDOM_STATE.
        """
        if self._state is None:
            self._state = self.input(tensor_type((4,), u32), RANDOM_STATE)
        self.streams += 1
        return self.apply(self._table[name], (self._state, *operands), {**params, "stream": self.streams})

    def random_bits(self, shape: Sequence[int]) -> Node:
        """Fresh random words."""
        return self.draw("random_bits", shape=tuple(shape))

    # -- conversions that vanish when there is nothing to do

    def unify(self, args: Sequence[Any]) -> list[Node]:
        """Numbers become constants; shapes are broadcast against each other as NumPy does."""
        nodes = [a for a in args if isinstance(a, Node)]
        # a select's condition has its own dtype, so constants follow the last operand that is a node
        like = nodes[-1]
        shapes = {n.shape for n in nodes}
        shape = like.shape if len(shapes) == 1 else broadcast_shapes(shapes)
        out = []
        for a in args:
            if not isinstance(a, Node):
                a = self.full(shape, a, like.dtype)
            elif a.shape != shape:
                a = self.broadcast(a, shape)
            out.append(a)
        return out

    def reshape(self, x: Node, shape: Sequence[int]) -> Node:
        """Same elements in row-major order."""
        shape = tuple(shape)
        if shape == x.shape:
            return x
        if x.prim.name == "reshape":
            return self.reshape(x.inputs[0], shape)
        return self.apply(self._table["reshape"], (x,), {"shape": shape})

    def broadcast(self, x: Node, shape: Sequence[int]) -> Node:
        """Repeat extents of 1 (and missing leading ones) up to ``shape``."""
        shape = tuple(shape)
        if shape == x.shape:
            return x
        if x.prim.name == "full":
            return self.full(shape, x.params["value"], x.dtype)
        if x.ndim < len(shape):
            x = self.reshape(x, (1,) * (len(shape) - x.ndim) + x.shape)
        if shape == x.shape:
            return x
        return self.apply(self._table["broadcast"], (x,), {"shape": shape})

    def transpose(self, x: Node, perm: Sequence[int]) -> Node:
        """Output axis ``i`` is input axis ``perm[i]``."""
        perm = tuple(perm)
        if perm == tuple(range(x.ndim)):
            return x
        return self.apply(self._table["transpose"], (x,), {"perm": perm})

    def cast(self, x: Node, dtype: DType) -> Node:
        """Convert the elements; floats are cut towards zero, narrower integers wrap."""
        if x.dtype is dtype:
            return x
        if x.prim.name == "round_to" and dtype is x.inputs[0].dtype:
            return x.inputs[0]
        return self.apply(self._table["cast"], (x,), {"dtype": dtype})

    def round_to(self, x: Node, dtype: DType) -> Node:
        """Float32 as a float of two bytes, rounded only where it is stored: kernels compute in float32 anyway."""
        if x.prim.name == "cast" and x.inputs[0].dtype is dtype:
            return x.inputs[0]
        return self.apply(self._table["round_to"], (x,), {"dtype": dtype})

    def slice(self, x: Node, begin: Sequence[int], end: Sequence[int], step: Sequence[int] | None = None) -> Node:
        """Strided slice with non-negative bounds and positive steps, one entry an axis."""
        steps = tuple(step) if step is not None else (1,) * x.ndim
        begin, end = tuple(begin), tuple(end)
        if begin == (0,) * x.ndim and end == x.shape and steps == (1,) * x.ndim:
            return x
        return self.apply(self._table["slice"], (x,), {"begin": begin, "end": end, "step": steps})

    def slice_axis(self, x: Node, axis: int, begin: int, end: int) -> Node:
        """Elements ``begin`` … ``end - 1`` along ``axis`` (negative: from the end), and all of the other axes."""
        low, high = [0] * x.ndim, list(x.shape)
        low[axis], high[axis] = begin, end
        return self.slice(x, low, high)

    def pad(self, x: Node, low: Sequence[int], high: Sequence[int], value: Any) -> Node:
        """Surround with ``value``, converted to the operand's dtype as NumPy converts."""
        params = {"low": tuple(low), "high": tuple(high), "value": to_scalar(value, x.dtype)}
        return self.apply(self._table["pad"], (x,), params)

    def concat(self, xs: Sequence[Node], axis: int) -> Node:
        """Join along ``axis``."""
        if len(xs) == 1:
            return xs[0]
        return self.apply(self._table["concat"], tuple(xs), {"axis": axis})

    def item(self, x: Node, index: int) -> Node:
        """Slice ``index`` along axis 0, without that axis."""
        return self.reshape(self.slice_axis(x, 0, index, index + 1), x.shape[1:])

    # -- reductions: primitives drop the axes; this keeps them as 1 on request

    def reduce(self, kind: str, x: Node, axes: Sequence[int] | None = None, keepdims: bool = False) -> Node:
        """``kind`` is sum, prod, amax or amin; axes None means all, negative ones count from the end.

        Sums and products of float16 and bfloat16 are float32, and narrowed: what is made of them may be within a
        range that they leave themselves.
        """
        axes = tuple(range(x.ndim)) if axes is None else tuple(sorted(a % x.ndim for a in axes))
        if not axes:
            return x
        y = self.apply(self._table[kind], (x,), {"axes": axes})
        if keepdims:
            y = self.reshape(y, tuple(1 if i in axes else d for i, d in enumerate(x.shape)))
        return self.round_to(y, x.dtype) if kind in ("sum", "prod") and x.dtype.is_half else y

    def sum(self, x: Node, axes: Sequence[int] | None = None, keepdims: bool = False) -> Node:
        return self.reduce("sum", x, axes, keepdims)

    def mean(self, x: Node, axes: Sequence[int] | None = None, keepdims: bool = False) -> Node:
        """Sum divided by the count, of float16 and bfloat16 in float32; integers are cut towards zero."""
        total = self.sum(x, axes, keepdims)
        count = x.size // max(total.size, 1) if x.size else 0
        if x.dtype.is_integer:
            return total / count
        taken = range(x.ndim) if axes is None else [a % x.ndim for a in axes]
        part = reciprocal(count, any(x.shape[a] > 1 and (a == 0 or a < x.ndim - 1) for a in taken))
        return self.round_to(self.cast(total, f32) * part, x.dtype) if x.dtype.is_half else total * part

    def finish(self, outputs: Sequence[Node], name: str = "graph") -> Graph:
        """The graph of everything recorded that ``outputs`` need."""
        return Graph(name, tuple(self.inputs), tuple(outputs))

    def __iter__(self) -> Iterator[Node]:
        return iter(self._memo.values())


def constant_nodes(graph: Graph, fixed: Collection[int]) -> set[Node]:
    """The nodes that depend on constants and the inputs at the positions ``fixed`` alone."""
    inputs = frozenset(n for k, n in enumerate(graph.inputs) if k in fixed and not is_random_state(n))
    constants: set[Node] = set()
    for node in graph.nodes:
        if node.prim.name == "input":
            if node in inputs:
                constants.add(node)
        elif all(i in constants for i in node.inputs):
            constants.add(node)
    return constants


def broadcast_shapes(shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """NumPy's broadcasting of several shapes.

    Raises:
        ValueError: two extents differ and neither is 1.
    """
    shapes = list(shapes)
    out: list[int] = []
    for position in range(1, max(map(len, shapes)) + 1):
        extents = [s[-position] for s in shapes if len(s) >= position and s[-position] != 1]
        extent = next((n for n in extents if type(n) is Dim), extents[0] if extents else 1)
        if any(n != extent for n in extents):
            raise ValueError(f"shapes {shapes} do not broadcast")
        out.append(extent)
    return tuple(reversed(out))


def to_scalar(value: Any, dtype: DType) -> bool | int | float:
    """``value`` as the Python number that an element of ``dtype`` holds (integers wrap)."""
    import numpy as np

    if issubclass(type(value), Dim):
        if dtype.short in ("f32", "f64"):
            number = (
                value if isinstance(value, DynamicFloat) else float_of_extent(value) if type(value) is Dim else None
            )
            if number is not None:
                return number.rounded(dtype)  # type: ignore[call-arg, arg-type, attr-defined, no-any-return]
        wide = dtype.kind == "i" and dtype.size >= 4
        if wide and isinstance(value, int) and -(1 << 8 * dtype.size - 1) <= value < 1 << 8 * dtype.size - 1:
            return value
        value = float(value) if isinstance(value, float) else int(value)
    with np.errstate(all="ignore"):
        if dtype.is_float:
            rounded = float(dtype.np.type(value))
            return value.rounded(rounded, dtype) if isinstance(value, DynamicFloat) else rounded
        if dtype.kind == "b":
            return bool(value)
        if isinstance(value, LastIndex) and dtype.kind == "i" and dtype.size >= 4:
            return value
        whole = int(value)
    bits = 8 * dtype.size
    whole &= (1 << bits) - 1
    return whole - (1 << bits) if dtype.kind == "i" and whole >> (bits - 1) else whole
