# SPDX-License-Identifier: Apache-2.0
"""``mx.viz``: a Symbol as a table, or as a picture by the optional package graphviz."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from .symbol.node import SymbolNode, topological
from .symbol.symbol import Symbol

__all__ = ["plot_network", "print_summary"]

#: suffixes of variables that hold parameters or states, hidden from pictures
_WEIGHTS = ("_weight", "_bias", "_beta", "_gamma", "_moving_var", "_moving_mean", "_running_var", "_running_mean")


def _shapes(symbol: Symbol, input_shapes: Mapping[str, Any] | None) -> dict[tuple[int, int], tuple[int, ...]]:
    """(node id, output) -> shape; empty without input shapes."""
    if input_shapes is None:
        return {}
    from .symbol.inference import Inference

    inference = Inference(symbol, {k: tuple(v) for k, v in input_shapes.items()}, {})
    inference.run()
    if any((id(n), k) not in inference.shapes for n, k in symbol._heads):
        raise ValueError("Input shape is incomplete")
    return inference.shapes


def print_summary(
    symbol: Symbol,
    shape: Mapping[str, Any] | None = None,
    line_length: int = 120,
    positions: Sequence[float] = [0.44, 0.64, 0.74, 1.0],
) -> None:
    """Print a table of the operators of a graph: output shapes without the batch axis, parameters, predecessors.

    Args:
        shape: input shapes by name; without them shapes and most counts are missing.
        line_length: characters a line.
        positions: where the columns end, as shares of the line or in characters.

    Raises:
        TypeError: no Symbol.
        ValueError: shapes that do not suffice.
    """
    if not isinstance(symbol, Symbol):
        raise TypeError("symbol must be Symbol")
    shapes = _shapes(symbol, shape)
    ends = [int(line_length * p) if positions[-1] <= 1 else int(p) for p in positions]
    input_names = set(shape or {})
    heads = {id(n) for n, _ in symbol._heads}

    def row(fields: Sequence[object]) -> None:
        line = ""
        for field, end in zip(fields, ends, strict=True):
            line = f"{line}{field}"[:end].ljust(end)
        print(line)

    def is_data(node: SymbolNode) -> bool:
        return node.name in input_names or not node.name.endswith((*_WEIGHTS, "_parameters", "_alpha"))

    print("_" * line_length)
    row(("Layer (type)", "Output Shape", "Param #", "Previous Layer"))
    print("=" * line_length)
    order = topological(symbol._heads)
    shown = [n for k, n in enumerate(order) if n.op is not None or k == 0 or id(n) in heads]
    total, counted = 0, set()
    for node in shown:
        count = 0
        states = node.auxiliary_inputs()
        for k, (source, _) in enumerate(node.inputs):
            if source.op is None and k not in states and not is_data(source) and id(source) not in counted:
                counted.add(id(source))
                count += prod(shapes.get((id(source), 0), (0,)))
        total += count
        before = [s.name for s, _ in node.inputs if s.op is not None or (is_data(s) and s is order[0])]
        extents = "x".join(str(d) for d in shapes.get((id(node), 0), (0,))[1:])
        row((f"{node.name}({node.op.name if node.op else 'null'})", extents, count, before[0] if before else ""))
        for name in before[1:]:
            row(("", "", "", name))
        print(("=" if node is shown[-1] else "_") * line_length)
    print(f"Total params: {total}")
    print("_" * line_length)


_COLOURS = (  # of operators by what they are, ColorBrewer's Set3
    (("null",), "#8dd3c7"),
    (("Convolution", "Deconvolution", "FullyConnected"), "#fb8072"),
    (("BatchNorm", "LayerNorm", "GroupNorm", "InstanceNorm"), "#bebada"),
    (("Activation", "LeakyReLU", "relu", "sigmoid", "tanh"), "#ffffb3"),
    (("Pooling",), "#80b1d3"),
    (("Concat", "Flatten", "Reshape", "transpose"), "#fdb462"),
    (("softmax", "SoftmaxOutput", "log_softmax"), "#b3de69"),
)


def plot_network(
    symbol: Symbol,
    title: str = "plot",
    save_format: str = "pdf",
    shape: Mapping[str, Any] | None = None,
    dtype: Any = None,
    node_attrs: Mapping[str, str] | None = None,
    hide_weights: bool = True,
) -> Any:
    """The graph as a ``graphviz.Digraph``: operators from bottom to top, with shapes on the edges if ``shape`` is given.

    Args:
        title: of the graph and of its file.
        save_format: of the file that ``render`` writes.
        dtype: accepted.
        node_attrs: attributes of all nodes.
        hide_weights: leave out parameters and states.

    Raises:
        ImportError: the package graphviz is missing.
        TypeError: no Symbol.
    """
    try:
        from graphviz import Digraph  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise ImportError("Draw network requires graphviz library\nInstall it with `pip install graphviz`.") from None
    if not isinstance(symbol, Symbol):
        raise TypeError("symbol must be a Symbol")
    names = [n.name for n in topological(symbol._heads)]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        warnings.warn(
            "There are multiple variables with the same name in your graph, this may result in cyclic graph. "
            f"Repeated names: {','.join(twice)}",
            stacklevel=2,
        )
    shapes = _shapes(symbol, shape)
    style = {
        "shape": "box",
        "fixedsize": "true",
        "width": "1.3",
        "height": "0.8034",
        "style": "filled",
        **(node_attrs or {}),
    }
    dot = Digraph(name=title, format=save_format)
    hidden: set[str] = set()
    for node in topological(symbol._heads):
        op = node.op.name if node.op else "null"
        if node.op is None and hide_weights and node.name.endswith(_WEIGHTS):
            hidden.add(node.name)
            continue
        colour = next((c for ops, c in _COLOURS if op in ops), "#fccde5")
        attributes = {**style, "fillcolor": colour}
        if node.op is None:
            attributes["shape"] = "oval"
        dot.node(name=node.name, label=node.name if node.op is None else _label(node), **attributes)
    for node in topological(symbol._heads):
        for source, k in node.inputs:
            if source.name in hidden:
                continue
            extents = shapes.get((id(source), k))
            label = {"label": "x".join(str(d) for d in extents[1:])} if extents else {}
            dot.edge(tail_name=node.name, head_name=source.name, dir="back", arrowtail="open", **label)
    return dot


def _label(node: SymbolNode) -> str:
    """An operator with the attributes that shape it."""
    assert node.op is not None
    attributes = [
        node.attrs[k]
        for k in ("num_filter", "num_hidden", "kernel", "stride", "act_type", "pool_type")
        if k in node.attrs
    ]
    return "\n".join([node.op.name, ", ".join(attributes)]) if attributes else node.op.name
