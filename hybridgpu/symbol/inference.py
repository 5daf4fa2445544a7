# SPDX-License-Identifier: Apache-2.0
"""Shapes and element types of a Symbol graph.

Forward, a node's results follow from its lowering. Backward, an operator's record fills in inputs
(the weight of a dense layer from its data). The graph is walked until nothing new is learned.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from ..base import MXNetError
from ..compiler.ir.types import TensorType, tensor_type
from ..compiler.primitives import builder
from ..core.dtypes import DType, dtype_of, f32, from_flag
from ..core.source_location import user_frame
from ..hints.node_errors import node_error, origin
from ..ops.record import shape_text
from ..util import is_np_shape
from .node import SymbolNode, topological
from .partial_inference import UNKNOWN, merge, probe_inputs, probe_outputs
from .subgraph import fill_shapes, incomplete, lower_node
from .symbol import Symbol, _auxiliary

__all__ = ["Inference", "infer_shape", "infer_type", "need_variables"]

Shape = tuple[int, ...]


def known_shape(shape: Any) -> bool:
    """True if every extent is known (-1 means unknown, and 0 too without NumPy shape semantics)."""
    return shape is not None and all(d > 0 or (d == 0 and is_np_shape()) for d in shape)


def _outside(shape: Shape | None) -> Shape | None:
    """A partial shape as callers see it."""
    if shape is None:
        return None if is_np_shape() else ()
    return shape if is_np_shape() else tuple(max(d, 0) for d in shape)


class Inference:
    """Propagates shapes and element types.

    Attributes:
        shapes, dtypes: (node id, output) -> what is known.
    """

    def __init__(
        self, symbol: Symbol, shapes: Mapping[str, Shape], dtypes: Mapping[str, DType], training: bool = False
    ) -> None:
        self.symbol, self.training = symbol, training
        self.order = topological(symbol._heads)
        self.shapes: dict[tuple[int, int], Shape] = {}
        self.partial: dict[tuple[int, int], Shape] = {}
        self.dtypes: dict[tuple[int, int], DType] = {}
        for node in self.order:
            if node.op is None:
                self._start(node, shapes, dtypes)
        #: nodes without inputs whose shape leaves extents open
        self.open: dict[int, SymbolNode] = {}
        for node in self.order:
            shape = incomplete(node)
            if shape is not None:
                self.open[id(node)] = node
            if shape:
                self.partial[id(node), 0] = tuple(d if known_shape((d,)) else UNKNOWN for d in shape)
        self._memo: dict[Any, tuple[TensorType, ...]] = {}
        self._initial_dtypes = dtypes
        self._followed: dict[tuple[int, int], DType] | None = None

    def _start(self, node: SymbolNode, shapes: Mapping[str, Shape], dtypes: Mapping[str, DType]) -> None:
        shape: Any = shapes.get(node.name)
        if shape is None and "__shape__" in node.attrs:
            try:
                shape = tuple(int(d) for d in ast.literal_eval(node.attrs["__shape__"]))
            except (ValueError, SyntaxError, TypeError):
                raise MXNetError(f"variable {node.name}: {node.attrs['__shape__']!r} is no shape") from None
        if known_shape(shape):
            self.shapes[id(node), 0] = tuple(shape)
            try:
                tensor_type(tuple(shape), dtypes.get(node.name, f32))
            except MXNetError as e:
                raise MXNetError(f"variable {node.name}: {e}") from None
        elif shape:
            self.partial[id(node), 0] = tuple(d if known_shape((d,)) else UNKNOWN for d in shape)
        if node.name in dtypes:
            self.dtypes[id(node), 0] = dtypes[node.name]
        elif "__dtype__" in node.attrs:
            try:
                flag = int(node.attrs["__dtype__"])
                if flag >= 0:
                    self.dtypes[id(node), 0] = from_flag(flag)
            except (ValueError, KeyError):
                raise MXNetError(f"variable {node.name}: {node.attrs['__dtype__']!r} is no element type") from None

    def run(self) -> None:
        """Walk forward and backward until nothing changes.

        Raises:
            MXNetError: a node whose inputs contradict each other; it is named.
        """
        for _ in range(4 + len(self.order)):
            before = (len(self.shapes), len(self.dtypes))
            self._dtypes()
            for node in self.order:
                if node.op is not None:
                    self._visit(node)
            for node in reversed(self.order):
                if node.op is not None:
                    self._backward(node)
            if (len(self.shapes), len(self.dtypes)) == before and not self._partially():
                return

    def _partially(self) -> bool:
        """One walk over nodes with unknown extents, both ways; whether anything was learned."""
        before = (len(self.shapes), dict(self.partial))
        for node in (*self.order, *reversed(self.order)):
            if node.op is None or node.op.eager is not None:
                continue
            keys = [(id(source), k) for source, k in node.inputs]
            outs = [(id(node), k) for k in range(node.num_outputs)]
            if all(k in self.shapes for k in (*keys, *outs)) or not any(
                k in self.shapes or k in self.partial for k in (*keys, *outs)
            ):
                continue
            if node.op.same_shape:
                self._unify([*keys, *outs], node)
            elif node.op.infer_from_results is None:
                if node.op.same_size:
                    self._count(node, keys[0], outs[0])
                self._probe(node, keys, outs)
        return (len(self.shapes), self.partial) != before

    def _seen(self, key: tuple[int, int]) -> Shape | None:
        return self.shapes.get(key, self.partial.get(key))

    def _note(self, key: tuple[int, int], shape: Shape, node: SymbolNode) -> None:
        """Add what is known of a shape.

        Raises:
            MXNetError: it contradicts what was known before.
        """
        old = self._seen(key)
        try:
            new = merge(old, shape)
        except ValueError:
            raise MXNetError(
                f"Error in operator {node.name}: Shape inconsistent, Provided = {shape_text(old or ())}, "
                f"inferred shape={shape_text(shape)}{origin(node)}"
            ) from None
        assert new is not None
        if UNKNOWN in new:
            self.partial[key] = new
        else:
            self.partial.pop(key, None)
            self.shapes[key] = new

    def _unify(self, keys: list[tuple[int, int]], node: SymbolNode) -> None:
        shapes = [s for s in map(self._seen, keys) if s is not None]
        for shape in shapes:
            for key in keys:
                self._note(key, shape, node)

    def _count(self, node: SymbolNode, key: tuple[int, int], out: tuple[int, int]) -> None:
        """The one unknown extent of the input, from the number of elements of the result."""
        shape, result_shape = self._seen(key), self.shapes.get(out)
        if shape is None or result_shape is None or shape.count(UNKNOWN) != 1:
            return
        extent_product = prod(d for d in shape if d != UNKNOWN)
        if extent_product and prod(result_shape) % extent_product == 0:
            self._note(key, tuple(prod(result_shape) // extent_product if d == UNKNOWN else d for d in shape), node)

    def _probe(self, node: SymbolNode, keys: list[tuple[int, int]], outs: list[tuple[int, int]]) -> None:
        partial_shapes = [self._seen(k) for k in keys]
        positions = [k for k, s in enumerate(partial_shapes) if s is not None]
        dtypes = [self.dtypes.get(k, f32) for k in keys]

        def results(shapes: Sequence[Shape]) -> list[Shape]:
            """Shapes of the results, then of all inputs."""
            every: list[Any] = [None] * len(keys)
            for k, s in zip(positions, shapes, strict=True):
                every[k] = s
            filled = fill_shapes(node, every)
            if not all(known_shape(s) for s in filled):
                raise MXNetError("not enough is known")
            types = self.results(node, [tensor_type(tuple(s), d) for s, d in zip(filled, dtypes, strict=True)])
            return [*(t.shape for t in types[: len(outs)]), *map(tuple, filled)]

        inputs = [s for s in partial_shapes if s is not None]
        expected_shapes = [*map(self._seen, outs), *partial_shapes]
        inputs = probe_inputs(results, inputs, expected_shapes)
        for k, s in zip(positions, inputs, strict=True):
            self._note(keys[k], s, node)
        probed_shapes = probe_outputs(results, inputs) or []
        if probed_shapes and node.op is not None and node.op.unknown_axes is not None:
            axes = [a for a in node.op.unknown_axes(node.values, len(inputs[0])) if inputs[0][a] == UNKNOWN]
            probed_shapes[0] = tuple(UNKNOWN if a in axes else d for a, d in enumerate(probed_shapes[0]))
        for key, shape in zip((*outs, *keys), probed_shapes, strict=False):
            self._note(key, shape, node)

    def _dtypes(self) -> None:
        """Inputs that share a letter share a type; what nothing says is float32."""
        for node in self.order:
            if node.op is None:
                continue
            letters = node.op.dtype_letters(len(node.inputs))
            by_letter: dict[str, DType] = {}
            for letter, (source, k) in zip(letters, node.inputs, strict=False):
                if letter != "*" and (id(source), k) in self.dtypes:
                    by_letter.setdefault(letter, self.dtypes[id(source), k])
            for letter, (source, k) in zip(letters, node.inputs, strict=False):
                if source.op is None and (id(source), k) not in self.dtypes and letter in by_letter:
                    self.dtypes[id(source), k] = by_letter[letter]
            if node.op.infer_dtypes is not None:
                keys = [(id(source), k) for source, k in node.inputs]
                filled = node.op.infer_dtypes(node.values, [self.dtypes.get(key) for key in keys])
                for key, (source, _), dtype in zip(keys, node.inputs, filled, strict=True):
                    if source.op is None and dtype is not None:
                        self.dtypes.setdefault(key, dtype)

    def completed(self) -> dict[int, Shape]:
        """Shapes of the nodes whose own shape leaves extents open, by identity.

        Raises:
            MXNetError: a shape that does not follow from anything; the node is named.
        """
        for key, node in self.open.items():
            if (key, 0) not in self.shapes:
                assert node.op is not None
                raise MXNetError(
                    f"Error in operator {node.name}: Operator {node.op.name} inferring shapes failed. input shapes: "
                    f"output shapes: {shape_text(getattr(node.values, 'shape', None) or ())}{origin(node)}"
                )
        return {key: self.shapes[key, 0] for key in self.open}

    def _visit(self, node: SymbolNode) -> None:
        assert node.op is not None
        if id(node) in self.open and (id(node), 0) not in self.shapes:
            return
        keys = [(id(source), k) for source, k in node.inputs]
        shapes: list[Any] = [self.shapes.get(k) for k in keys]
        if any(s is None for s in shapes):
            hints = [s if s is not None else self.partial.get(key) for s, key in zip(shapes, keys, strict=True)]
            filled = fill_shapes(node, list(shapes))
            for key, s, old, hint in zip(keys, filled, shapes, hints, strict=True):
                if old is None and known_shape(s):
                    self._learn(key, tuple(s), hint, node)
            shapes = [self.shapes.get(k) for k in keys]
        if any(s is None for s in shapes):
            return
        if (id(node), 0) in self.shapes and (id(node), node.num_outputs - 1) in self.dtypes:
            return
        if any(
            id(source) in self.open and key not in self.dtypes
            for (source, _), key in zip(node.inputs, keys, strict=True)
        ):
            return  # its shape came from elsewhere; its type comes with its own visit
        try:
            types = [tensor_type(s, self._dtype(k)) for s, k in zip(shapes, keys, strict=True)]
        except MXNetError as e:
            raise node_error(node, e, shapes) from None
        for k, t in enumerate(self.results(node, types)):
            previous = self.shapes.get((id(node), k))
            if previous is not None and previous != t.shape:
                raise MXNetError(
                    f"Error in operator {node.name}: Incompatible attr in node {node.name} at {k}-th output: "
                    f"expected {shape_text(previous)}, got {shape_text(t.shape)}"
                )
            self.shapes[id(node), k] = t.shape
            self.dtypes[id(node), k] = t.dtype

    def _dtype(self, key: tuple[int, int]) -> DType:
        """An input's type. Where its shape came first, from elsewhere: what follows from types alone, or float32."""
        dtype = self.dtypes.get(key)
        if dtype is None:
            if self._followed is None:
                self._followed = _propagated(self.symbol, self._initial_dtypes, True)
            dtype = self._followed.get(key, f32)
        return dtype

    def _learn(self, key: tuple[int, int], shape: Shape, hint: Any, node: SymbolNode) -> None:
        if hint is not None and (
            len(hint) != len(shape) or any(h > 0 and h != d for h, d in zip(hint, shape, strict=True))
        ):
            raise MXNetError(
                f"Error in operator {node.name}: Shape inconsistent, Provided = {shape_text(hint)}, "
                f"inferred shape={shape_text(shape)}{origin(node)}"
            )
        self.shapes[key] = shape

    def _backward(self, node: SymbolNode) -> None:
        """Operators of equal shapes learn from their result."""
        assert node.op is not None
        out = self.shapes.get((id(node), 0))
        if out is None:
            return
        if node.op.infer_from_results is not None:
            shapes = [self.shapes.get((id(source), k)) for source, k in node.inputs]
            results = [self.shapes.get((id(node), k)) for k in range(node.num_outputs)]
            for (source, k), old, new in zip(
                node.inputs, shapes, node.op.infer_from_results(node.values, list(shapes), results), strict=True
            ):
                if old is None and new is not None:
                    self._note((id(source), k), tuple(new), node)
        if node.op.same_shape:
            for source, k in node.inputs:
                if (id(source), k) not in self.shapes:
                    self._learn((id(source), k), out, self.partial.get((id(source), k)), node)

    def results(self, node: SymbolNode, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Types of all results of a node for given input types.

        Raises:
            MXNetError: naming the node.
        """
        assert node.op is not None
        if node.op.infer_results is not None:
            return tuple(node.op.infer_results(node.values, types))
        if node.op.eager is not None:
            return ()
        key = (node.op, node.values.key, tuple(types), (node.subgraphs or id(node) in self.open) and id(node))
        result_types = self._memo.get(key)
        if result_types is None:
            b = builder(self.training)
            inputs = [b.input(t, str(k)) for k, t in enumerate(types)]
            try:
                shape = self.shapes.get((id(node), 0)) if id(node) in self.open else None
                result_types = tuple(n.type for n in lower_node(b, node, inputs, shape))
            except MXNetError as e:
                raise node_error(node, e, types) from None
            self._memo[key] = result_types
        return result_types


def need_variables(symbol: Symbol, names: Iterable[str], what: str) -> None:
    """Refuse names of no variable of the graph; ``what`` ('Shape' or 'Type') is to be inferred from them."""
    arguments = symbol.list_arguments()
    variables = {*arguments, *symbol.list_auxiliary_states()}
    for name in names:
        if name not in variables:
            raise MXNetError(
                f"Infer{what}Keyword argument name {name} not found.\nCandidate arguments:\n"
                + "\n".join(f"\t[{k}]{n}" for k, n in enumerate(arguments))
            )


def _named(symbol: Symbol, args: Sequence[Any], kwargs: Mapping[str, Any], what: str = "Shape") -> dict[str, Any]:
    if args and kwargs:
        raise ValueError("Can only specify known argument shapes either by positional or kwargs way.")
    if args:
        return {n: s for n, s in zip(symbol.list_arguments(), args, strict=False) if s is not None}
    need_variables(symbol, kwargs, what)
    return {k: v for k, v in kwargs.items() if v is not None}


def infer_shape(symbol: Symbol, args: Sequence[Any], kwargs: Mapping[str, Any], partial: bool) -> Any:
    """See Symbol.infer_shape."""
    shapes = _named(symbol, args, kwargs)
    for name, shape in {**shapes, **kwargs}.items():
        if not isinstance(shape, tuple):
            raise TypeError(f"Arguments need to be shapes (tuple), but '{name}' is {type(shape)}.")
    arguments, states = _variables(symbol)
    types = _propagated(symbol, {}, True)  # from whatever node says it, not float32 in advance
    dtypes = {n.name: types[id(n), 0] for n in (*arguments, *states) if (id(n), 0) in types}
    inference = Inference(symbol, shapes, dtypes)
    inference.run()

    def of(key: tuple[int, int]) -> Any:
        inferred = inference.shapes.get(key)
        return inferred if inferred is not None or not partial else _outside(inference.partial.get(key))

    arg_shapes = [of((id(n), 0)) for n in arguments]
    out_shapes = [of((id(n), k)) for n, k in symbol._heads]
    aux_shapes = [of((id(n), 0)) for n in states]
    if not partial and any(s is None for s in (*arg_shapes, *out_shapes, *aux_shapes)):
        unknown = [
            f"{n.name}: {_outside(inference.partial.get((id(n), 0)))}"
            for n, s in zip(arguments, arg_shapes, strict=True)
            if s is None
        ]
        warnings.warn(
            "Cannot decide shape for the following arguments (0s in shape means unknown dimensions). "
            "Consider providing them as input:\n\t" + "\n\t".join(unknown[:10] + ["..."] * (len(unknown) > 10)),
            stacklevel=user_frame(),
        )
        return None, None, None
    return arg_shapes, out_shapes, aux_shapes


def infer_type(symbol: Symbol, args: Sequence[Any], kwargs: Mapping[str, Any], partial: bool) -> Any:
    """See Symbol.infer_type. Types follow without shapes."""
    dtypes = {k: dtype_of(v) for k, v in _named(symbol, args, kwargs, "Type").items()}
    arguments, states = _variables(symbol)
    types = _propagated(symbol, dtypes, True)

    def of(key: tuple[int, int]) -> Any:
        return types[key].np.type if key in types else None

    result = (
        [of((id(n), 0)) for n in arguments],
        [of((id(n), k)) for n, k in symbol._heads],
        [of((id(n), 0)) for n in states],
    )
    if not partial and any(t is None for part in result for t in part):
        warnings.warn(
            "Cannot decide type for the following arguments. Consider providing them as input:\n\t"
            + "\n\t".join(f"{n.name}: None" for n, t in zip(arguments, result[0], strict=True) if t is None),
            stacklevel=user_frame(),
        )
        return None, None, None
    return result


def type_propagation(
    symbol: Symbol, given: Mapping[str, DType], declared: bool = True, default: DType | None = f32
) -> dict[tuple[int, int], DType]:
    """Element types of all entries; what nothing says is float32, or left out without a ``default``.

    ``declared`` counts the types that variables were made with.
    """
    dtypes = _propagated(symbol, given, declared)
    if default is None:
        return dtypes
    for node in topological(symbol._heads):
        for k in range(node.num_outputs):
            dtypes.setdefault((id(node), k), default)
    return dtypes


def _propagated(symbol: Symbol, initial_dtypes: Mapping[str, DType], declared: bool) -> dict[tuple[int, int], DType]:
    """Element types of the entries that something is said of, in both directions of the graph."""
    inference = Inference(symbol, {}, initial_dtypes)
    dtypes = inference.dtypes
    if not declared:
        for node in inference.order:
            if node.op is None and node.name not in initial_dtypes:
                dtypes.pop((id(node), 0), None)
    before = -1
    while len(dtypes) != before:
        before = len(dtypes)
        inference._dtypes()
        for node in inference.order:
            if node.op is None:
                continue
            input_dtypes = [dtypes.get((id(s), k)) for s, k in node.inputs]
            for k, chosen in enumerate(node.op.dtypes_of_results(node.values, input_dtypes)):
                if chosen is not None:
                    dtypes[id(node), k] = chosen
        for node in reversed(inference.order):
            if node.op is not None:
                _types_of_inputs(node, dtypes)
    return dtypes


def _types_of_inputs(node: SymbolNode, dtypes: dict[tuple[int, int], DType]) -> None:
    """From the result of a node, or from its other inputs, to inputs that nothing is known of."""
    op = node.op
    assert op is not None
    follows = op.result_dtype is None and op.eager is None and node.values.__dict__.get("dtype") is None
    letters = op.dtype_letters(len(node.inputs))
    by_letter: dict[str, DType] = {}
    for letter, (source, k) in zip(letters, node.inputs, strict=False):
        if letter != "*" and (id(source), k) in dtypes:
            by_letter.setdefault(letter, dtypes[id(source), k])
    if follows and letters and (id(node), 0) in dtypes:
        by_letter.setdefault(letters[0], dtypes[id(node), 0])
    for letter, (source, k) in zip(letters, node.inputs, strict=False):
        if letter != "*" and letter in by_letter:
            dtypes.setdefault((id(source), k), by_letter[letter])


def _variables(symbol: Symbol) -> tuple[list[SymbolNode], list[SymbolNode]]:
    aux = _auxiliary(symbol._heads)
    variables = [n for n in topological(symbol._heads) if n.op is None]
    return [n for n in variables if id(n) not in aux], [n for n in variables if id(n) in aux]
