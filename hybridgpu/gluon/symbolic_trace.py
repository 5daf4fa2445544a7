# SPDX-License-Identifier: Apache-2.0
"""HybridBlocks that define ``hybrid_forward``: traced on Symbols, once for all (``forward.py`` has the other kind)."""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING, Any

from .. import symbol as sym_module
from ..base import MXNetError
from ..core.dtypes import dtype_of, f32
from ..core.source_location import block_scope, user_frame
from ..hints.gluon import about_arguments
from ..hints.node_errors import origin_of_input
from ..hints.op_errors import about_types
from ..runtime.cached_op import CachedOp
from ..runtime.host_numbers import Draws, warn_of_kept
from ..runtime.hybridize_flags import call_options
from ..symbol import Group, Symbol
from ..symbol import var as make_var
from ..symbol.inference import Inference, type_propagation
from ..symbol.node import topological
from .pytree import flatten, regroup

if TYPE_CHECKING:
    from .hybrid import HybridBlock

__all__ = [
    "Formats",
    "Graph",
    "bound_graph",
    "call_on_symbols",
    "class_of_symbols",
    "infer_parameter_shapes",
    "infer_parameter_types",
    "inferred",
    "trace_symbols",
]

Graph = tuple[list[Symbol], Symbol]  #: variables of the inputs, results
Formats = tuple[Any, Any]  #: how arguments and results are nested


def call_on_symbols(block: HybridBlock, args: tuple[Any, ...]) -> Any:
    """What ``hybrid_forward`` makes of Symbols."""
    params = {key: p.var() for key, p in block._reg_params.items()}
    with block.name_scope(), block_scope(block.name):
        try:
            return block.hybrid_forward(sym_module, *args, **params)
        except TypeError as e:
            about_arguments(e, block, len(args))
            raise


def trace_symbols(block: HybridBlock, args: tuple[Any, ...]) -> tuple[Graph, Formats]:
    """The graph of a call with ``args``.

    Raises:
        TypeError: ``hybrid_forward`` returns None, or Symbols of both interfaces.
    """
    flat, form = flatten(args, "input")
    given = sum(x is not None for x in flat)
    names = iter(["data"] if given == 1 else [f"data{k}" for k in range(given)])
    inputs = [None if x is None else _variable_for(next(names), x) for x in flat]
    with Draws() as drawn:
        out = call_on_symbols(block, tuple(regroup(list(inputs), form)))
    if drawn and threading.active_count() == 1:  # else another thread may be who drew
        kinds: dict[type, None] = {}
        block.apply(lambda child: kinds.setdefault(type(child)))
        warn_of_kept(block.name, [k.hybrid_forward for k in reversed(kinds) if hasattr(k, "hybrid_forward")])
    if out is None:
        raise TypeError(
            "Expected a list of symbols as input\n"
            f"{type(block).__name__}.hybrid_forward returned None: end it with a return statement (block {block.name})."
        )
    outputs, form_of_results = flatten(out, "output")
    graph = [i for i in inputs if i is not None], Group(outputs, class_of_symbols(outputs))
    return graph, (form, form_of_results)


def bound_graph(block: HybridBlock, graph: Graph, formats: Formats, flags: dict[str, Any], first: str) -> CachedOp:
    """The graph bound to the parameters; warns of inputs and parameters that it does not read.

    Args:
        flags: of ``hybridize``.
        first: why its programs are compiled, for reports.

    Raises:
        AssertionError: it reads a variable that is neither.
    """
    inputs, out = graph
    params = dict(block.collect_params().items())
    names = set(out.list_inputs())
    data = [i.name for i in inputs]
    if idle := ", ".join(f"{k}-th" for k, name in enumerate(data) if name not in names):
        _warn_of_unused(f"The {idle} input to HybridBlock")
    if idle := ", ".join(n for n in params if n not in names):
        _warn_of_unused(f"Parameter {idle}")
    if missing := sorted(names - params.keys() - set(data)):
        raise AssertionError(
            f"Unknown input to HybridBlock: {missing[0]}\n"
            "A block in a list is no child of this one: self.register_child(block), or nn.HybridSequential in the list's place. "
            "An operator of F makes no parameters: use a layer of gluon.nn, or make them in __init__, "
            "self.weight = self.params.get('weight', ...), and name them as arguments of hybrid_forward."
            + origin_of_input(topological(out._heads), missing[0])
        )
    op = CachedOp(out, data, params, block.name, *call_options(flags), first=first)  # type: ignore[arg-type]
    op.formats = formats
    return op


def _warn_of_unused(what: str) -> None:
    warnings.warn(f"{what} is not used by any computation. Is this intended?", stacklevel=user_frame())


def infer_parameter_shapes(block: HybridBlock, graph: Graph, args: tuple[Any, ...]) -> None:
    """Fill in unknown shapes of parameters from the inputs.

    Raises:
        MXNetError: one does not follow.
    """
    params = block.collect_params()
    inference = inferred(graph, args)
    for node in inference.order:
        if node.op is None and node.name in params:
            shape = inference.shapes.get((id(node), 0))
            if shape is not None:
                params[node.name].shape = shape
            elif not all(d > 0 for d in params[node.name].shape or (0,)):
                raise MXNetError(
                    f"the shape of parameter {node.name} does not follow from the inputs; give it when the parameter is made"
                )


def inferred(graph: Graph, args: tuple[Any, ...]) -> Inference:
    """The shapes and types in a graph for arguments of a call."""
    inputs, out = graph
    flat = _arrays(args)
    shapes = {i.name: x.shape for i, x in zip(inputs, flat, strict=True)}
    inference = Inference(out, shapes, _types(inputs, flat))  # type: ignore[arg-type]
    try:
        inference.run()
    except MXNetError as e:
        if not about_types(e):
            raise
        # shapes follow all the same; the call itself says what is wrong with the types
        inference = Inference(out, shapes, dict.fromkeys(out.list_inputs(), f32))  # type: ignore[arg-type]
        inference.run()
    return inference


def infer_parameter_types(block: HybridBlock, graph: Graph, args: tuple[Any, ...]) -> None:
    """Give parameters the element types that follow from the inputs."""
    inputs, out = graph
    types = type_propagation(out, _types(inputs, _arrays(args)), declared=False)  # type: ignore[arg-type]
    params = block.collect_params()
    for node in topological(out._heads):
        if node.op is None and node.name in params:
            params[node.name].cast(types[id(node), 0].np.type)


def _arrays(args: tuple[Any, ...]) -> list[Any]:
    return [x for x in flatten(args, "input")[0] if x is not None]


def _types(inputs: list[Symbol], arrays: list[Any]) -> dict[str | None, Any]:
    return {i.name: dtype_of(x.dtype) for i, x in zip(inputs, arrays, strict=True)}


def _variable_for(name: str, x: Any) -> Symbol:
    """The variable that stands for an argument in a trace, of its interface."""
    variable = make_var(name)
    return variable if x._kind is None else variable.as_np_ndarray()  # type: ignore[no-any-return]


def class_of_symbols(symbols: list[Symbol]) -> type[Symbol]:
    """The class of all results of a graph.

    Raises:
        TypeError: some are of np, others are not.
    """
    kinds = {s._kind for s in symbols}
    if len(kinds) > 1:
        raise TypeError(
            "Found both classic symbol (mx.sym.Symbol) and numpy symbol (mx.sym.np._Symbol) in outputs. This will prevent you "
            "from building a computation graph by grouping them since different types of symbols are not allowed to be grouped "
            "in Gluon to form a computation graph. You will need to convert them to the same type of symbols, either classic or "
            "numpy following this rule: if you want numpy ndarray output(s) from the computation graph, please convert all the "
            "classic symbols in the list to numpy symbols by calling `as_np_ndarray()` on each of them; if you want classic "
            "ndarray output(s) from the computation graph, please convert all the numpy symbols in the list to classic symbols "
            "by calling `as_nd_ndarray()` on each of them."
        )
    return kinds.pop() or Symbol
