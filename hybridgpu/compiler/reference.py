# SPDX-License-Identifier: Apache-2.0
"""The reference interpreter: what a graph means.

It is the oracle of the tests (in float64 on request), the way eager operators run, and the last
fallback where there is no compiler. A graph is prepared once into a flat list of steps and then
run with almost no interpretation.

bfloat16 is computed as generated kernels do: values are held in float32 and rounded where they are
stored, and where the graph says so. So is float16 where one computed value goes into another (a mean's
sum may be larger than any float16); around matrix products it is not, for the sake of tensor cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..core.dtypes import DType, bf16, f16, f32, f64
from ..core.float_errors import IGNORED, ignore_errors, restore_errors
from .ir.graph import Graph, Node, Primitive
from .ir.types import TensorType, tensor_type

__all__ = ["Interpreter", "evaluate", "evaluate_stored"]

_MOST_LINES = 24  #: of Python for a graph: to compile them takes as long as some dozen calls

Take = Callable[[], Any]  #: gives an array of undefined values


class _Holding(NamedTuple):
    """In which types values are held between steps.

    Attributes:
        wide: all floats in float64.
        halves: the types of two bytes that are held in float32.
    """

    wide: bool
    halves: tuple[DType, ...]

    def dtype(self, dtype: DType) -> DType:
        return f64 if self.wide and dtype.is_float else f32 if dtype in self.halves else dtype

    def type(self, type: TensorType) -> TensorType:
        dtype = self.dtype(type.dtype)
        return type if dtype is type.dtype else tensor_type(type.shape, dtype)

    def params(self, params: Any) -> dict[str, Any]:
        return {k: self.type(v) if isinstance(v, TensorType) else v for k, v in params.items()}

    def changes(self, node: Node) -> bool:
        """Whether the node has to do with a type that is held in another."""
        return any(self.dtype(n.dtype) is not n.dtype for n in (node, *node.inputs))


_STORED = _Holding(False, (bf16,))


class Written(NamedTuple):
    """A graph as Python.

    Attributes:
        lines: what they compute.
        results: an expression for each.
        names: what both name, besides the arguments.
    """

    lines: list[str]
    results: list[str]
    names: dict[str, Any]


class Interpreter:
    """Runs one graph on arrays of the module ``xp`` (NumPy or CuPy).

    Results are C-contiguous arrays that share no memory with the arguments or each other.
    """

    def __init__(
        self,
        graph: Graph,
        xp: Any = np,
        wide: bool = False,
        special: Callable[..., Any] | None = None,
        storage: Callable[[TensorType], Take | None] | None = None,
    ) -> None:
        """
        Args:
            wide: evaluate every float in float64, whatever its declared type.
            special: (node, types of its operands as they are held, params, its type) -> what evaluates it on this
                device, with the arguments of ``Primitive.evaluate``; None for the primitive's own evaluation.
            storage: what gives arrays for results of a type, or None where ``xp`` allocates them; not for ``wide``.
        """
        self.graph, self._xp = graph, xp
        hold = _Holding(wide, () if wide else _halves(graph))
        slot: dict[Node, int] = {}
        self._start: list[Any] = []  # constants: views of one number, or of one line of them
        shapes, constant = _held_shapes(graph), _constant(graph) if hold.halves else set()
        self._steps: list[tuple[Callable[..., Any], list[int], int]] = []
        self._as_in_memory: set[int] = set()  # what is C-contiguous if the arguments are
        for node in graph.nodes:
            if shapes[node] != node.shape and node.prim.family == "view":
                slot[node] = slot[node.inputs[0]]  # whoever reads it broadcasts
                continue
            slot[node] = len(self._start)
            self._start.append(None)
            if node.prim.name == "full":
                number = xp.asarray(node.params["value"], hold.dtype(node.dtype).np)
                self._start[-1] = xp.broadcast_to(number, shapes[node])
            elif node.prim.name != "input":
                run, params, type = node.prim.evaluate, node.params, tensor_type(shapes[node], node.dtype)
                if wide:
                    type, params = hold.type(type), hold.params(params)
                    if node.prim.name == "cast" and params["dtype"].is_float:
                        params = {"dtype": f64}
                elif hold.changes(node):
                    run, params, type = _in_float32(node, type, hold)
                    if node in constant:
                        run = _rounding(run, node.dtype)
                if special is not None:
                    operand_types = [hold.type(i.type) for i in node.inputs]
                    run = special(node, operand_types, params, type) or run
                operand_slots = [slot[i] for i in node.inputs]
                if node.prim.name == "iota":
                    self._start[-1] = run(xp, (), params, type)
                    continue
                prepare = getattr(run, "prepare", None)
                if prepare is None:
                    function = _of_arrays(run, xp, params, type)
                else:
                    function = prepare(xp, [shapes[i] for i in node.inputs], params, type)
                stored = None
                if storage is not None and node in graph.outputs and not hold.changes(node):
                    stored = _storing(function, node, xp, storage(type))
                self._steps.append((stored or function, operand_slots, slot[node]))
                if stored is not None:
                    self._as_in_memory.add(slot[node])
                    continue
                if isinstance(function, np.ufunc) and all(shapes[i] in (node.shape, ()) for i in node.inputs):
                    self._as_in_memory.update([slot[node]] if self._as_in_memory.issuperset(operand_slots) else [])
                    continue
            if node.prim.name == "input" or (node.prim.name == "full" and shapes[node] == ()):
                self._as_in_memory.add(slot[node])
        self._inputs = [
            (
                slot[n],
                hold.dtype(n.dtype).np if hold.dtype(n.dtype) is not n.dtype or (wide and n.dtype.is_float) else None,
            )
            for n in graph.inputs
        ]
        self._outputs = [slot[n] for n in graph.outputs]
        # an output that may be a view (or repeats another output) is copied
        self._copy = [
            (n.prim.family in ("view", "leaf") and not n.prim.allocates)
            or n.prim.name == "stop_gradient"
            or n in graph.outputs[:k]
            for k, n in enumerate(graph.outputs)
        ]
        self._copied = [_copying(xp, storage and storage(n.type)) for n in graph.outputs]
        self._rounded = [None if wide or hold.dtype(n.dtype) is n.dtype else n.dtype.np for n in graph.outputs]

    def __call__(self, *arrays: Any) -> list[Any]:
        env = self._start.copy()
        for (k, dtype), a in zip(self._inputs, arrays, strict=True):
            env[k] = a if dtype is None else a.astype(dtype)
        xp = self._xp
        results = []
        token = ignore_errors(IGNORED)
        try:
            for run, inputs, target in self._steps:
                env[target] = run(*[env[k] for k in inputs])
            for k, copy, copied, rounded in zip(self._outputs, self._copy, self._copied, self._rounded, strict=True):
                y = env[k]
                if rounded is not None:
                    y = xp.asarray(y).astype(rounded, order="C")
                elif copy:
                    y = copied(y)
                elif not isinstance(y, xp.ndarray):  # NumPy returns scalars for shape ()
                    y = xp.asarray(y)
                elif not y.flags.c_contiguous:
                    y = xp.ascontiguousarray(y)
                results.append(y)
        finally:
            restore_errors(token)
        return results

    def written(self, arguments: Sequence[str]) -> Written | None:
        """Python that does what a call does; None where that is long, or arguments or results are converted.

        Args:
            arguments: the names of the arrays.
        """
        if len(self._steps) > _MOST_LINES or any(dtype for _, dtype in self._inputs) or any(self._rounded):
            return None
        xp = self._xp
        names: dict[str, Any] = {}
        slot_names = {slot: name for (slot, _), name in zip(self._inputs, arguments, strict=True)}
        for slot, constant in enumerate(self._start):
            if constant is not None:
                slot_names[slot] = f"c{slot}"
                names[f"c{slot}"] = constant
        lines = []
        for k, (function, inputs, target) in enumerate(self._steps):
            slot_names[target] = f"e{k}"
            names[f"f{k}"] = function
            lines.append(f"e{k} = f{k}({', '.join(slot_names[i] for i in inputs)})")
        results = []
        outputs = zip(self._outputs, self._copy, self._copied, self.graph.outputs, strict=True)
        for k, (slot, copy, copied, node) in enumerate(outputs):
            result = slot_names[slot]
            if copy:
                names[f"copied{k}"] = copied
                result = f"copied{k}({result})"
            elif not node.shape:  # NumPy returns scalars
                names["array"] = xp.asarray
                result = f"array({result})"
            elif slot not in self._as_in_memory:
                names["contiguous"] = xp.ascontiguousarray
                result = f"contiguous({result})"
            results.append(result)
        return Written(lines, results, names)


def _storing(function: Callable[..., Any], node: Node, xp: Any, take: Take | None) -> Callable[..., Any] | None:
    """``function``, which evaluates ``node``, with the result in an array that ``take`` gives; None where it allocates."""
    if take is None or any(i.dtype is not node.dtype for i in node.inputs):
        return None
    if isinstance(function, np.ufunc):
        return lambda *arrays: function(*arrays, out=take())
    if node.prim.name == "concat":
        axis = node.params["axis"]
        return lambda *arrays: xp.concatenate(arrays, axis, out=take())
    return None


def _copying(xp: Any, take: Take | None) -> Callable[[Any], Any]:
    """A function that copies an array, into one that ``take`` gives if it is there."""
    if take is None:
        return partial(xp.array, order="C")

    def copied(array: Any) -> Any:
        new = take()
        new[...] = array
        return new

    return copied


def _of_arrays(run: Callable[..., Any], xp: Any, params: Any, out: TensorType) -> Callable[..., Any]:
    """An evaluation as a function of the arrays alone."""
    return lambda *arrays: run(xp, arrays, params, out)


def _held_shapes(graph: Graph) -> dict[Node, tuple[int, ...]]:
    """The shape in which each node's array is held: its own, or a smaller one that broadcasts to it.

    Constants, numbers that are arguments, and what is broadcast are not spread out for elementwise primitives, whose
    functions broadcast.
    """
    whole = set(graph.outputs)  # what is read as an array of its shape
    while True:
        held_shapes: dict[Node, tuple[int, ...]] = {}
        more: set[Node] = set()
        for node in graph.nodes:
            held_shapes[node] = node.shape
            if node in whole:
                shape = node.shape
                if not _broadcasts(node) or _broadcast_shape(node, held_shapes) != shape:
                    more.update(node.inputs)
            elif node.prim.name == "full":
                held_shapes[node] = ()
            elif node.prim.name == "broadcast":
                held_shapes[node] = held_shapes[node.inputs[0]]
            elif node.prim.name == "reshape" and held_shapes[node.inputs[0]] == ():
                held_shapes[node] = ()
            elif _broadcasts(node) and node.inputs:
                held_shapes[node] = _broadcast_shape(node, held_shapes)
            else:
                more.update(node.inputs)
        if more <= whole:
            return held_shapes
        whole |= more


def _broadcast_shape(node: Node, held_shapes: dict[Node, tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that a function which broadcasts gives for the operands as they are held."""
    shapes = {held_shapes[i] for i in node.inputs}
    if len(shapes) > 1:
        shapes.discard(())
    return next(iter(shapes)) if len(shapes) == 1 else np.broadcast_shapes(*shapes)


def _broadcasts(node: Node) -> bool:
    return node.prim.family == "elementwise"


def _halves(graph: Graph) -> tuple[DType, ...]:
    """The types of two bytes that are to be held in float32."""
    halves = []
    computing = [n for n in graph.nodes if _computes(n)]
    if any(n.dtype is bf16 or any(i.dtype is bf16 for i in n.inputs) for n in computing):
        halves.append(bf16)
    if _chained(graph) and all(n.prim.family not in ("contract", "conv") for n in computing):
        halves.append(f16)
    return tuple(halves)


def _computes(node: Node) -> bool:
    """False for what only moves elements, which array libraries do in any type."""
    return node.prim.family not in ("leaf", "view") and not node.prim.moves


def _chained(graph: Graph) -> bool:
    """Whether a float16 is computed from another one that is computed, which array libraries round in between."""
    computed: set[Node] = set()
    for node in graph.nodes:
        if node.dtype is f16 and node.prim.name != "cast":  # a cast asks for the rounding
            follows = not computed.isdisjoint(node.inputs)
            if node.prim.name == "round_to":  # a sum, say
                computed.add(node)
            elif not _computes(node):
                computed.update([node] if follows else [])
            elif follows:
                return True
            else:
                computed.add(node)
    return False


def _in_float32(node: Node, type: TensorType, hold: _Holding) -> tuple[Callable[..., Any], Any, TensorType]:
    """(evaluation, params, type) of a node with a type of two bytes on values held in float32."""
    evaluate = node.prim.evaluate
    if "body" in node.params:  # a loop stores what its steps exchange
        stored = [None if hold.dtype(i.dtype) is i.dtype else i.dtype.np for i in node.inputs]

        def loop(xp: Any, inputs: Sequence[Any], params: Any, out: TensorType) -> Any:
            args = [x if t is None else x.astype(t) for x, t in zip(inputs, stored, strict=True)]
            return evaluate(xp, args, params, out).astype(hold.dtype(out.dtype).np, copy=False)

        return loop, node.params, type
    if node.prim.name == "cast" and hold.dtype(node.dtype) is not node.dtype:

        def rounded(xp: Any, inputs: Sequence[Any], params: Any, out: TensorType) -> Any:
            return xp.asarray(evaluate(xp, inputs, params, out)).astype(np.float32)

        return rounded, node.params, type
    return evaluate, hold.params(node.params), hold.type(type)


def _constant(graph: Graph) -> set[Node]:
    """Nodes that follow from constants alone: compilers compute them beforehand, and they are rounded then."""
    constants: set[Node] = set()
    for node in graph.nodes:
        computed = node.prim.family == "elementwise" and bool(node.inputs) and constants.issuperset(node.inputs)
        if computed or node.prim.name == "full":
            constants.add(node)
    return constants


def _rounding(run: Callable[..., Any], dtype: DType) -> Callable[..., Any]:
    """``run``, whose results are rounded to ``dtype`` and held as they were."""

    def rounded(xp: Any, inputs: Sequence[Any], params: Any, out: TensorType) -> Any:
        y = xp.asarray(run(xp, inputs, params, out))
        with np.errstate(over="ignore"):  # infinity is what is asked for
            return y.astype(dtype.np).astype(y.dtype)

    return rounded


def evaluate_stored(prim: Primitive, xp: Any, inputs: Sequence[Any], params: Any, out: TensorType) -> Any:
    """A primitive on arrays as they are stored; of bfloat16 the result is in float32, still to be rounded."""
    if out.dtype is not bf16 and all(x.dtype.kind != "V" for x in inputs):
        return prim.evaluate(xp, inputs, params, out)
    widened = [x.astype(np.float32) if x.dtype == bf16.np else x for x in inputs]
    return prim.evaluate(xp, widened, _STORED.params(params), _STORED.type(out))


def evaluate(graph: Graph, arrays: Sequence[Any], xp: Any = np, wide: bool = False) -> list[Any]:
    """One-off evaluation; see :class:`Interpreter`."""
    return Interpreter(graph, xp, wide)(*arrays)
