# SPDX-License-Identifier: Apache-2.0
"""Loops: one small graph, the *body*, run once for every index of a leading axis.

The operands of ``loop`` are *data* (read one slice a step), initial *states* and *captured* values,
in this order; so are the inputs of the body. The outputs of the body are the step's results and the
new states. Results are stacked along a new leading axis; of a state either every value (*stacked*)
or the last one is kept. A step whose *guard*, one of the body's inputs, is false does not happen: its
results are zeros and the states stay. A while loop is a guarded loop, a conditional one of length 1.

A node has one type, so a ``loop`` node is flat and holds, one after the other, all results of one
element type (``emit``). Loops with results of several types are several nodes over the same operands.

The derivative is a loop again, in the opposite direction: its data are slices of the operands, the
states before each step and the cotangents; its states are the cotangents of the states and sums for
captured values. Where such a sum is one of matrix products, the factors are kept and multiplied
once after the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from ...core.dataclass import dataclass
from ...core.dtypes import DType, f64, from_short
from ..body_passes import BODY_PASSES
from ..ir.graph import Builder, Graph, Node, Params, Primitive, reachable
from ..ir.types import TensorType, joint_type, tensor_type

__all__ = ["ROWS", "inline", "loop", "run_loop"]


_INTERPRETERS: WeakKeyDictionary[Graph, dict[Any, Any]] = WeakKeyDictionary()  #: of bodies
_DERIVATIVES: WeakKeyDictionary[Graph, dict[Any, Any]] = WeakKeyDictionary()


def _interpreter(body: Graph, xp: Any, wide: bool) -> Any:
    """The function that runs a body on arrays of ``xp``."""
    from ..reference import Interpreter

    interpreters = _INTERPRETERS.setdefault(body, {})
    key = (id(xp), wide)
    if key not in interpreters:
        interpreters[key] = Interpreter(BODY_PASSES["simplify"]()(body), xp, wide)
    return interpreters[key]


def _derivative(body: Graph, kept: tuple[int, ...], given: tuple[bool, ...], wanted: tuple[bool, ...]) -> Any:
    """The derivative of a step; ``kept`` are the positions of the outputs that it may read."""
    derivatives = _DERIVATIVES.setdefault(body, {})
    key = (kept, given, wanted)
    if key not in derivatives:
        derivatives[key] = BODY_PASSES["differentiate"]()(body, [body.outputs[k] for k in kept], given, wanted)
    return derivatives[key]


def _types(nodes: Sequence[Node]) -> list[TensorType]:
    return [n.type for n in nodes]


@dataclass(frozen=True)
class OutputSegment:
    """The elements of a loop node's result that hold one output of its body.

    Attributes:
        position: among the outputs of the body.
        begin, end: in elements.
        shape: with the leading axis, if it is stacked.
    """

    position: int
    begin: int
    end: int
    shape: tuple[int, ...]
    stacked: bool


def layout(outputs: Sequence[TensorType], params: Params) -> list[OutputSegment]:
    """The segments of a loop node's result, in order."""
    first_state = len(outputs) - params["states"]
    parts, at = [], 0
    for k, t in enumerate(outputs):
        if t.dtype.short != params["emit"]:
            continue
        stacked = k < first_state or params["stacked"][k - first_state]
        size = t.size * (params["length"] if stacked else 1)
        parts.append(OutputSegment(k, at, at + size, (params["length"], *t.shape) if stacked else t.shape, stacked))
        at += size
    return parts


def inline(b: Builder, graph: Graph, inputs: Sequence[Node]) -> list[Node]:
    """The outputs of ``graph`` for nodes of ``b`` in the place of its inputs; nodes keep their names."""
    value: dict[Node, Node] = dict(zip(graph.inputs, inputs, strict=True))
    around = b.prov
    for node in graph.nodes:
        if node not in value:
            b.prov = node.prov or around
            value[node] = b.reapply(node, [value[i] for i in node.inputs])
    b.prov = around
    return [value[o] for o in graph.outputs]


def loop(
    b: Builder,
    body: Graph,
    data: Sequence[Node],
    states: Sequence[Node],
    captured: Sequence[Node] = (),
    *,
    length: int,
    stacked: Sequence[bool] | None = None,
    reverse: bool = False,
    guard: int = -1,
) -> list[Node]:
    """Record a loop.

    Args:
        body: the graph of a step; its inputs are data slices, states and captured values. It draws random
            numbers from a state that is one of them.
        data: each of shape (length, …).
        states: initial values.
        captured: the same in every step.
        stacked: for each state, whether all its values are kept; by default so. The derivative needs
            them, and computes the loop again if they were not kept.
        reverse: from the last index to the first.
        guard: number of a body input that tells whether a step happens.

    Returns:
        A node an output of the body: results and stacked states of shape (length, …), the last value
        of other states.
    """
    assert not body.draws
    flags = tuple(stacked) if stacked is not None else (True,) * len(states)
    outputs = _types(body.outputs)
    if length == 0:  # nothing happens
        first = len(outputs) - len(states)
        return [
            states[k - first] if k >= first and not flags[k - first] else b.full((0, *t.shape), 0, t.dtype)
            for k, t in enumerate(outputs)
        ]
    operands = [*data, *states, *captured]
    n, m, first = len(data), len(states), len(outputs) - len(states)
    results: dict[int, Node] = {}
    for short in dict.fromkeys(t.dtype.short for t in outputs):
        # what results of other types alone need is left out
        kept, used = _needed(body, first, n, short, guard)
        reduced = body
        if len(kept) < len(outputs):
            reduced = Graph(body.name, tuple(body.inputs[k] for k in used), tuple(body.outputs[k] for k in kept))
        else:
            used = list(range(len(operands)))
        params: dict[str, Any] = {
            "body": reduced,
            "length": length,
            "data": sum(k < n for k in used),
            "states": sum(n <= k < n + m for k in used),
            "stacked": tuple(flags[k - first] for k in kept if k >= first),
            "reverse": reverse,
            "guard": used.index(guard) if guard >= 0 else -1,
            "emit": short,
        }
        node = b.loop(*[operands[k] for k in used], **params)
        parts = _parts(b, node, [outputs[k] for k in kept], params)
        results.update({kept[k]: part for k, part in parts.items()})
    return [results[k] for k in range(len(outputs))]


def _needed(body: Graph, first: int, n: int, short: str, guard: int) -> tuple[list[int], list[int]]:
    """The outputs (results of a type, and states that they depend on) and the inputs that these use."""
    needed = {k for k, o in enumerate(body.outputs) if o.dtype.short == short}
    m = len(body.outputs) - first
    while True:
        inner = set(reachable([body.outputs[k] for k in needed]))
        used = {k for k, i in enumerate(body.inputs) if i in inner or k == guard}
        used |= {k - first + n for k in needed if k >= first}
        states = {k - n + first for k in used if n <= k < n + m}
        if states <= needed:
            return sorted(needed), sorted(used)
        needed |= states


def _parts(b: Builder, node: Node, outputs: Sequence[TensorType], params: Params) -> dict[int, Node]:
    """Body output -> its part of a loop node (or of a cotangent of one)."""
    return {p.position: b.reshape(b.slice(node, (p.begin,), (p.end,)), p.shape) for p in layout(outputs, params)}


def _infer(types: Sequence[TensorType], params: Params) -> TensorType:
    body, length, n, m = params["body"], params["length"], params["data"], params["states"]
    inputs, outputs = _types(body.inputs), _types(body.outputs)
    fits = len(types) == len(inputs) and length >= 1 and len(outputs) >= m == len(params["stacked"])
    for k, (t, want) in enumerate(zip(types, inputs, strict=False)):
        whole = tensor_type((length, *want.shape), want.dtype) if k < n else want
        fits = fits and joint_type(t, whole) is not None
    fits = fits and all(joint_type(outputs[len(outputs) - m + j], inputs[n + j]) is not None for j in range(m))
    guard = params["guard"]
    fits = fits and (guard < 0 or inputs[guard].size == 1) and guard < n + m
    if not fits:
        raise TypeError(f"loop over {list(types)} of a body from {inputs} to {outputs} with {n} data, {m} states")
    dtype: DType = from_short(params["emit"])
    return tensor_type((sum(p.end - p.begin for p in layout(outputs, params)),), dtype)


# -- running


def run_loop(
    xp: Any,
    operands: Sequence[Any],
    params: Params,
    outputs: Sequence[TensorType],
    packed: Any,
    step: Callable[[list[Any], list[Any]], None],
    wide: bool = False,
) -> None:
    """Run a loop.

    Args:
        operands: arrays, as the operands of the node.
        outputs: types of the body's outputs.
        packed: the array of the node's value, which is filled.
        step: (inputs, arrays for the outputs) runs the body once.
        wide: floats are float64, whatever their types.
    """
    length, n, m, guard = params["length"], params["data"], params["states"], params["guard"]
    data, states, captured = list(operands[:n]), list(operands[n : n + m]), list(operands[n + m :])
    first = len(outputs) - m
    parts = {p.position: p for p in layout(outputs, params)}
    arrays = {k: packed[p.begin : p.end].reshape(p.shape) for k, p in parts.items()}
    stacks = {k: arrays[k] for k, p in parts.items() if p.stacked}
    # what is not stacked is written to one of two arrays, so that the old value can be read meanwhile
    spare: dict[int, list[Any]] = {}
    for k, out in enumerate(outputs):
        if k not in stacks:
            dtype = f64.np if wide and out.dtype.is_float else out.dtype.np
            spare[k] = [xp.empty(out.shape, dtype) for _ in range(1 if k < first else 2)]
    if guard >= 0:
        packed[...] = 0
    for t in range(length - 1, -1, -1) if params["reverse"] else range(length):
        values = [*(d[t, ...] for d in data), *states, *captured]
        if guard >= 0 and not bool(values[guard]):
            for j in range(m):
                if first + j in stacks:
                    stacks[first + j][t, ...] = states[j]
            continue
        targets = []
        for k in range(len(outputs)):
            if k in stacks:
                targets.append(stacks[k][t, ...])
            else:
                choice = spare[k]
                targets.append(choice[1] if k >= first and states[k - first] is choice[0] else choice[0])
        step(values, targets)
        states = targets[first:]
    for k, p in parts.items():
        if not p.stacked:
            arrays[k][...] = states[k - first]


def _evaluate(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    body: Graph = params["body"]
    wide = any(n.dtype.is_float and x.dtype != n.dtype.np for n, x in zip(body.inputs, inputs, strict=True))
    run = _interpreter(body, xp, wide)

    def step(values: list[Any], targets: list[Any]) -> None:
        for target, value in zip(targets, run(*values), strict=True):
            target[...] = value

    packed = xp.empty(out.shape, out.dtype.np)
    run_loop(xp, inputs, params, _types(body.outputs), packed, step, wide)
    return packed


# -- the derivative


def _summands(x: Node) -> list[Node]:
    """The operands of a tree of additions."""
    terms, stack = [], [x]
    while stack:
        node = stack.pop()
        if node.prim.name == "add":
            stack += reversed(node.inputs)
        elif node.prim.name != "full" or node.params["value"] != 0:
            terms.append(node)
    return terms


def _sum(b: Builder, parts: Sequence[Node]) -> Node:
    total = parts[0]
    for part in parts[1:]:
        total = b.add(total, part)
    return total


def _padded_step(x: Node) -> int | None:
    """The only index of the first axis where ``x`` is not zero, if it is one entry padded with zeros."""
    if x.prim.name != "pad" or x.params["value"] != 0 or x.inputs[0].shape[:1] != (1,):
        return None
    low, high = x.params["low"], x.params["high"]
    return None if any(low[1:]) or any(high[1:]) else int(low[0])


def _vjp(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    if not y.dtype.is_float:
        return [None] * len(inputs)
    return _Reverse(b, g, y, inputs, params).gradients()


class _Reverse:
    """The loop that computes the cotangents of a loop's operands."""

    def __init__(self, b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> None:
        self.b, self.y, self.inputs, self.params = b, y, list(inputs), params
        self.body: Graph = params["body"]
        self.types = _types(self.body.inputs)
        self.outputs = _types(self.body.outputs)
        self.length, self.n, self.m = params["length"], params["data"], params["states"]
        self.first = len(self.outputs) - self.m
        self.cotangents, self.final = self._split(g)
        self.values = {p.position for p in layout(self.outputs, params) if p.stacked}
        # the body of the derivative, and the operands that its inputs stand for
        self.step = b.nested()
        self.data: list[tuple[Node, Node]] = []  # (input of the body, operand)
        self.states: list[tuple[Node, Node]] = []
        self.captured: list[tuple[Node, Node]] = []

    def _split(self, g: Node) -> tuple[dict[int, Node], dict[int, Node]]:
        """Cotangents of the body's outputs, and of the last values of states as far as they stand alone.

        A cotangent is a sum of padded pieces. What is known to be zero is left out.
        """
        b = self.b
        whole: dict[int, list[Node]] = {}
        final: dict[int, list[Node]] = {}
        last = 0 if self.params["reverse"] else self.length - 1
        for piece in _summands(g):
            zero_padded = piece.prim.name == "pad" and piece.params["value"] == 0
            source, low = (piece.inputs[0], piece.params["low"][0]) if zero_padded else (piece, 0)
            high = low + source.size
            for p in layout(self.outputs, self.params):
                if p.end <= low or high <= p.begin:
                    continue
                if (low, high) != (p.begin, p.end):
                    whole.setdefault(p.position, []).append(b.reshape(b.slice(piece, (p.begin,), (p.end,)), p.shape))
                    continue
                for part in _summands(b.reshape(source, p.shape)):
                    step = _padded_step(part) if p.stacked and p.position >= self.first else None
                    if not p.stacked:
                        final.setdefault(p.position, []).append(part)
                    elif step == last:
                        final.setdefault(p.position, []).append(b.reshape(part.inputs[0], p.shape[1:]))
                    else:
                        whole.setdefault(p.position, []).append(part)
        total = {k: _sum(b, parts) for k, parts in whole.items()}
        return total, {k: _sum(b, parts) for k, parts in final.items()}

    def gradients(self) -> list[Node | None]:
        """The cotangents of all operands: one loop in the opposite order, over the derivative of a step.

        Cotangents of states and captured values are its states; what needs no order is summed after it.
        """
        b, types = self.b, self.types
        # what is already there: stacked results and states of this node
        kept = tuple(sorted(self.values))
        given = tuple(k in self.cotangents if k < self.first else t.dtype.is_float for k, t in enumerate(self.outputs))
        wanted = tuple(t.dtype.is_float for t in types)
        derivative = _derivative(self.body, kept, given, wanted)
        argument = self._arguments(kept, given)
        results = inline(self.step, derivative.graph, [argument(k) for k in derivative.input_positions])
        part = [None if k is None else results[k] for k in derivative.output_positions]
        table = iter(part)
        step_gradients = [next(table) if w else None for w in wanted]

        carry, deferred = self._collect(step_gradients)
        guard = self._guard()
        order = [*self.data, *self.states, *self.captured]
        outs = self._emitted
        results = [*outs, *(new for _, new in carry)]
        if guard is not None and any(self.total[j] is not self.carried[j] for j in self.carried):
            # a step that did not happen still hands on what its value contributes: only the rest is guarded
            results = self._guarded(results, guard)
            guard = None
        graph = Graph("step_backward", tuple(i for i, _ in order), tuple(results))
        gone = loop(
            b,
            graph,
            [o for _, o in self.data],
            [o for _, o in self.states],
            [o for _, o in self.captured],
            length=self.length,
            stacked=(False,) * len(self.states),
            reverse=not self.params["reverse"],
            guard=-1 if guard is None else [i for i, _ in self.data].index(guard),
        )
        stacks = dict(zip(outs, gone, strict=False))
        last = gone[len(outs) :]
        answer: list[Node | None] = [None] * len(types)
        for k, x in enumerate(step_gradients[: self.n]):
            answer[k] = None if x is None else stacks[x]
        for (k, _), value in zip(carry, last, strict=True):
            answer[k] = value
        for k, rule in deferred.items():
            answer[k] = rule(stacks)
        return answer

    def _guarded(self, results: list[Node], guard: Node) -> list[Node]:
        """The results of a step as a loop of length 1 inside it, which happens if ``guard`` holds."""
        step, count = self.step, len(self._emitted)
        before = [self.total[j] for j in self.carried]
        before += [i for i, _ in self.states[len(self.carried) :]]  # sums so far
        others = [i for i in step.inputs if i is not guard]
        inner = step.nested()
        flag = inner.input(guard.type, "guard")
        old = [inner.input(x.type, f"old{k}") for k, x in enumerate(before)]
        rest = [inner.input(x.type, f"in{k}") for k, x in enumerate(others)]
        value = {guard: flag, **dict(zip(others, rest, strict=True)), **dict(zip(before, old, strict=True))}
        for node in reachable(results):
            if node not in value:
                value[node] = inner.reapply(node, [value[i] for i in node.inputs])
        body = Graph("guarded", (flag, *old, *rest), tuple(value[r] for r in results))
        first = step.reshape(guard, (1, *guard.shape))
        guarded = loop(step, body, [first], before, others, length=1, stacked=(False,) * len(before), guard=0)
        return [step.reshape(y, y.shape[1:]) for y in guarded[:count]] + guarded[count:]

    # -- inputs of the step

    def _arguments(self, kept: tuple[int, ...], given: tuple[bool, ...]) -> Callable[[int], Node]:
        """A function that gives argument ``k`` of the body's derivative, made on demand."""
        step, n, m = self.step, self.n, self.m
        count = len(self.types)
        heads = [k for k, flag in enumerate(given) if flag]
        self.carried: dict[int, Node] = {}
        self.total: dict[int, Node] = {}  # with what this step's value contributes itself
        for j in range(m):  # cotangents of states are carried from step to step, needed or not
            t = self.types[n + j]
            if t.dtype.is_float:
                self.carried[j] = self._input(self.states, t, self._start(j))
                stacked = self.cotangents.get(self.first + j)
                added = None if stacked is None else step.add(self.carried[j], self._slice(stacked))
                self.total[j] = self.carried[j] if added is None else added

        def argument(k: int) -> Node:
            if k < count:
                return self._forward(k)
            k -= count
            if k < len(kept):
                return self._slice(self._output(kept[k]))
            out = heads[k - len(kept)]
            if out < self.first:
                return self._slice(self.cotangents[out])
            return self.total[out - self.first]

        return argument

    def _start(self, j: int) -> Node:
        t = self.types[self.n + j]
        return self.final.get(self.first + j, self.b.full(t.shape, 0, t.dtype))

    def _forward(self, k: int) -> Node:
        """Input ``k`` of the body at this step."""
        if k < self.n:
            return self._slice(self.inputs[k])
        if k < self.n + self.m:
            return self._slice(self._before(k - self.n))
        return self._input(self.captured, self.types[k], self.inputs[k])

    def _slice(self, operand: Node) -> Node:
        return self._input(self.data, tensor_type(operand.shape[1:], operand.dtype), operand)

    def _input(self, where: list[tuple[Node, Node]], type: TensorType, operand: Node) -> Node:
        if where is not self.states:
            for inner, o in where:
                if o is operand:
                    return inner
        node = self.step.input(type, f"in{len(self.step.inputs)}")
        where.append((node, operand))
        return node

    def _output(self, position: int) -> Node:
        """All values of one output of the body, from the loop's own value or from the loop run again."""
        if position in self.values:
            return _parts(self.b, self.y, self.outputs, self.params)[position]
        params = {**self.params, "stacked": (True,) * self.m, "emit": self.outputs[position].dtype.short}
        again = self.b.loop(*self.inputs, **params)
        return _parts(self.b, again, self.outputs, params)[position]

    def _before(self, j: int) -> Node:
        """The values of a state before each step."""
        b, initial = self.b, self.inputs[self.n + j]
        first = b.reshape(initial, (1, *initial.shape))
        if self.length == 1:
            return first
        after = self._output(self.first + j)
        if self.params["reverse"]:
            return b.concat([b.slice_axis(after, 0, 1, after.shape[0]), first], 0)
        return b.concat([first, b.slice_axis(after, 0, 0, self.length - 1)], 0)

    def _guard(self) -> Node | None:
        guard = self.params["guard"]
        return None if guard < 0 else self._forward(guard)

    # -- results of the step

    def _collect(
        self, step_gradients: list[Node | None]
    ) -> tuple[list[tuple[int, Node]], dict[int, Callable[..., Node]]]:
        """New states of the reverse loop as (operand, node), and how deferred sums are computed."""
        step, n, m = self.step, self.n, self.m
        self._emitted: list[Node] = []
        for x in step_gradients[:n]:
            if x is not None:
                self._emit(x)
        carry: list[tuple[int, Node]] = []
        for j in range(m):
            if j in self.carried:
                x = step_gradients[n + j]
                t = self.types[n + j]
                carry.append((n + j, step.full(t.shape, 0, t.dtype) if x is None else x))
        deferred: dict[int, Callable[..., Node]] = {}
        for k in range(n + m, len(self.types)):
            x = step_gradients[k]
            if x is None:
                continue
            rule = self._defer(x)
            if rule is not None:
                deferred[k] = rule
                continue
            total = self._input(self.states, x.type, self.b.full(x.shape, 0, x.dtype))
            carry.append((k, step.add(total, x)))
        return carry, deferred

    def _emit(self, node: Node) -> None:
        if node not in self._emitted:
            self._emitted.append(node)

    def _defer(self, x: Node) -> Callable[..., Node] | None:
        """A function of the stacks that computes the sum of ``x`` over all steps, if that is cheaper after the loop."""
        b, prim = self.b, x.prim.name
        if prim in ("transpose", "reshape"):
            inner = self._defer(x.inputs[0])
            if inner is None:
                return None
            if prim == "reshape":
                return lambda stacks: b.reshape(inner(stacks), x.shape)
            return lambda stacks: b.transpose(inner(stacks), x.params["perm"])
        if prim == "add":
            rules = [self._defer(i) for i in x.inputs]
            if rules[0] is None or rules[1] is None:
                return None
            one, two = rules
            return lambda stacks: b.add(one(stacks), two(stacks))  # type: ignore[misc]
        if prim == "dot" and x.ndim == 2:
            p, q = x.inputs
            if p.size + q.size > 4 * x.size:
                return None
            left, right = self._factor(p), self._factor(q)
            (m, k), cols = p.shape, q.shape[1]
            depth = self.length * k

            def product(stacks: dict[Node, Node]) -> Node:
                rows = b.reshape(b.transpose(left(stacks), (1, 0, 2)), (m, depth))
                return b.dot(rows, b.reshape(right(stacks), (depth, cols)))

            return product
        if prim == "sum" and x.inputs[0].size <= 4 * x.size * max(1, self.length):
            operand = self._factor(x.inputs[0])
            axes = tuple(a + 1 for a in x.params["axes"])
            return lambda stacks: b.cast(b.sum(operand(stacks), (0, *axes)), x.dtype)
        if prim == "round_to":
            wide = self._defer(x.inputs[0])
            return None if wide is None else lambda stacks: b.round_to(wide(stacks), x.dtype)
        return None

    def _factor(self, x: Node) -> Callable[..., Node]:
        """All values of ``x``: a stack that the loop writes, or an operand of the loop."""
        b = self.b
        if x.prim.name == "transpose":
            inner = self._factor(x.inputs[0])
            perm = (0, *(p + 1 for p in x.params["perm"]))
            return lambda stacks: b.transpose(inner(stacks), perm)
        if x.prim.name == "reshape":
            inner = self._factor(x.inputs[0])
            return lambda stacks: b.reshape(inner(stacks), (self.length, *x.shape))
        for known, operand in self.data:
            if known is x and self.params["guard"] < 0:
                return lambda stacks: operand
        self._emit(x)
        return lambda stacks: stacks[x]


ROWS = [Primitive("loop", "loop", _infer, _evaluate, _vjp, doc="a body graph for every index of a leading axis")]
