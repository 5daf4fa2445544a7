# SPDX-License-Identifier: Apache-2.0
"""The fused recurrent operator: stacked layers of one kind over a sequence, in one or both directions.

What does not depend on the state (the product of all inputs with the input weights) is one matrix
product a layer; the rest is a loop over time. All weights lie in one vector: for every layer and
direction the input weights, the state weights and the projection, then in the same order the biases.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..compiler.ir.types import TensorType, tensor_type
from ..compiler.primitives.loop import loop
from ..core.dtypes import DType, i64
from ..hints.op_errors import differing_types, refusal
from .create import _uniform01
from .linear import need_float
from .params import Bool, Double, Enum, Float, Int, Param, Unsigned, Values
from .record import operator, sample, shape_text, tuple_text
from .shape import concat

__all__ = ["GATES"]

GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}  #: kind -> how many state sizes a weight has rows for


class _Weights(NamedTuple):
    """The parameters of one layer in one direction."""

    i2h: Node
    h2h: Node
    h2r: Node | None
    i2h_bias: Node
    h2h_bias: Node


def _input_names(p: Values) -> list[str]:
    names = ["data", "parameters", "state"]
    if p.mode == "lstm":
        names.append("state_cell")
    if p.use_sequence_length:
        names.append("sequence_length")
    return names


def _sizes(p: Values, depth: int) -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]]:
    """Shapes of input weight, state weight and projection of every layer and direction."""
    rows, directions = GATES[p.mode] * p.state_size, 2 if p.bidirectional else 1
    out = p.projection_size or p.state_size
    projection = (out, p.state_size) if p.projection_size else None
    sizes: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]] = []
    for layer in range(p.num_layers):
        width = depth if layer == 0 else out * directions
        sizes += [((rows, width), (rows, out), projection)] * directions
    return sizes


def _parameter_count(p: Values, depth: int) -> int:
    rows, directions = GATES[p.mode] * p.state_size, 2 if p.bidirectional else 1
    out = p.projection_size or p.state_size
    # in one direction of a layer, beside the weights of its inputs, which are wider in all layers but the first
    own = rows * out + out * p.state_size * bool(p.projection_size) + 2 * rows
    widths = depth + out * directions * (p.num_layers - 1) if p.num_layers else 0
    return int(directions * (rows * widths + own * p.num_layers))


def _shapes(p: Values, shapes: list[Any]) -> list[Any]:
    data = shapes[0]
    if data is None:
        return shapes
    if len(data) != 3:
        raise refusal(
            f"Check failed: dshape.ndim() == 3U ({len(data)} vs. 3) : "
            "Input data should be rank-3 tensor of dim [sequence length, batch size, input size]",
            f"The data has {len(data)} axes: add the missing one with x.expand_dims(axis), or reshape it.",
        )
    count = p.num_layers * (2 if p.bidirectional else 1)
    by_name = {
        "data": data,
        "parameters": (_parameter_count(p, data[2]),),
        "state": (count, data[1], p.projection_size or p.state_size),
        "state_cell": (count, data[1], p.state_size),
        "sequence_length": (data[1],),
    }
    return [by_name[n] for n in _input_names(p)]


_PARAMS: dict[str, Param] = {
    "state_size": Unsigned(doc="units of a layer", low=0),
    "num_layers": Unsigned(doc="layers on top of each other", low=0),
    "bidirectional": Bool(False, "every layer runs in both directions; the results lie side by side"),
    "mode": Enum(doc="the kind of cell", choices=tuple(GATES)),
    "p": Float(0.0, "rate of dropout between layers, in training", within=(0, 1)),
    "state_outputs": Bool(False, "the last states are results too"),
    "projection_size": Int(None, "lstm: units of the projected state", optional=True),
    "lstm_state_clip_min": Double(None, "lstm: least value of a cell", optional=True),
    "lstm_state_clip_max": Double(None, "lstm: greatest value of a cell", optional=True),
    "lstm_state_clip_nan": Bool(False, "clipping makes a NaN the least value"),
    "use_sequence_length": Bool(False, "the last input holds the number of valid steps of each sequence"),
}


def _sample(mode: str, shape: tuple[int, int, int], size: int, layers: int, **more: Any) -> Any:
    """A test call with inputs of fitting shapes."""
    attributes = {"mode": mode, "state_size": size, "num_layers": layers, "state_outputs": True, **more}
    defaults = {k: v.default for k, v in _PARAMS.items()}
    shapes = _shapes(Values({**defaults, **attributes}), [shape])
    positions = {len(shapes) - 1: (0, shape[0])} if more.get("use_sequence_length") else None
    return sample(shapes, attributes, positions)


def _dtypes(p: Values, dtypes: list[DType | None]) -> list[DType | None]:
    floats = len(dtypes) - p.use_sequence_length
    dtype = next((d for d in dtypes[:floats] if d is not None), None)
    return [dtype if d is None and k < floats else d for k, d in enumerate(dtypes)]


def _check(p: Values, nodes: dict[str, Node]) -> None:
    data = nodes["data"]
    need_float(data)
    shapes = _shapes(p, [data.shape])
    for (name, node), shape in zip(nodes.items(), shapes, strict=True):
        if node.shape != tuple(shape):
            raise MXNetError(
                f"Shape inconsistent, Provided = {shape_text(node.shape)}, inferred shape={tuple_text(shape)}: "
                f"input {name} of RNN"
            )
        if name != "sequence_length" and node.dtype is not data.dtype:
            raise differing_types(
                f"This layer requires uniform type. Expected '{data.dtype.name}' v.s. given '{node.dtype.name}' at '{name}'",
                ("data", data.dtype),
                (name, node.dtype),
            )
    if not 0 <= p.p < 1:
        raise MXNetError("unsupported dropout value, should be 0 <= dropout < 1")
    if p.mode != "lstm" and (p.projection_size or p.lstm_state_clip_min is not None):
        raise MXNetError("Projection is only supported for LSTM.\nState clipping is only supported for LSTM.")
    if (p.lstm_state_clip_min is None) != (p.lstm_state_clip_max is None):
        raise MXNetError("lstm_state_clip_min and lstm_state_clip_max must be specified together.")


def _unpacked(b: Builder, p: Values, depth: int, parameters: Node) -> list[_Weights]:
    """The parameters of every layer and direction, as views of the vector."""
    at = 0

    def take(shape: tuple[int, ...]) -> Node:
        nonlocal at
        at += prod(shape)
        return b.reshape(b.slice(parameters, (at - prod(shape),), (at,)), shape)

    sizes = _sizes(p, depth)
    weights = [(take(i), take(h), None if r is None else take(r)) for i, h, r in sizes]
    rows = GATES[p.mode] * p.state_size
    return [_Weights(*w, take((rows,)), take((rows,))) for w in weights]


def _columns(b: Builder, x: Node, count: int) -> list[Node]:
    """Equal parts along the last axis."""
    width = x.shape[1] // count
    return [b.slice_axis(x, 1, k * width, (k + 1) * width) for k in range(count)]


def _cell(s: Builder, p: Values, z: Node, states: list[Node], w: list[Node]) -> list[Node]:
    """New states of one step. ``z`` is the inputs' part of the gates, ``w`` what follows the states."""
    h, h2h = states[0], w[0]
    u = s.dot(h, s.transpose(h2h, (1, 0)))
    if p.mode == "lstm":
        i, f, g, o = _columns(s, z + u, 4)
        c = s.sigmoid(f) * states[1] + s.sigmoid(i) * s.tanh(g)
        if p.lstm_state_clip_min is not None:
            low, high = p.lstm_state_clip_min, p.lstm_state_clip_max
            if p.lstm_state_clip_nan:
                c = s.select(s.ne(c, c), s.full_like(c, low), c)
            c = s.max(s.min(c, high), low)
        h = s.sigmoid(o) * s.tanh(c)
        return [h if not p.projection_size else s.dot(h, s.transpose(w[1], (1, 0))), c]
    if p.mode == "gru":
        zr, zu, zn = _columns(s, z, 3)
        ur, uu, un = _columns(s, u + s.broadcast(s.reshape(w[1], (1, u.shape[1])), u.shape), 3)
        r, update = s.sigmoid(zr + ur), s.sigmoid(zu + uu)
        n = s.tanh(zn + r * un)
        return [(1 - update) * n + update * h]
    return [s.max(z + u, 0) if p.mode == "rnn_relu" else s.tanh(z + u)]


def _direction(
    b: Builder, p: Values, x: Node, w: _Weights, states: list[Node], valid: Node | None, reverse: bool
) -> tuple[Node, list[Node]]:
    """One layer in one direction: all results, the last states."""
    length, n, depth = x.shape
    rows = w.i2h.shape[0]
    # the biases are added once to all steps, except where a gate multiplies its part of the second one
    bias = w.i2h_bias if p.mode == "gru" else w.i2h_bias + w.h2h_bias
    z = b.dot(b.reshape(x, (length * n, depth)), b.transpose(w.i2h, (1, 0))) + b.reshape(bias, (1, rows))
    captured = [w.h2h, *([w.h2h_bias] if p.mode == "gru" else []), *([w.h2r] if w.h2r is not None else [])]
    data = [b.reshape(z, (length, n, rows)), *([] if valid is None else [valid])]

    s = b.nested()
    z_t = s.input(_step_type(data[0]), "z")
    valid_t = None if valid is None else s.input(_step_type(valid), "valid")
    old = [s.input(h.type, f"state{k}") for k, h in enumerate(states)]
    new = _cell(s, p, z_t, old, [s.input(c.type, f"weight{k}") for k, c in enumerate(captured)])
    results: list[Node] = []
    if valid_t is not None:  # past its end a sequence keeps its state and gives zeros
        new = [s.select(s.broadcast(valid_t, a.shape), a, o) for a, o in zip(new, old, strict=True)]
        results = [s.select(s.broadcast(valid_t, new[0].shape), new[0], s.full_like(new[0], 0))]
    body = s.finish([*results, *new], "step")
    outputs = loop(b, body, data, states, captured, length=length, reverse=reverse)
    stacks = outputs[len(results) :]
    last = states if length == 0 else [b.item(y, 0 if reverse else length - 1) for y in stacks]
    return outputs[0], last


def _step_type(x: Node) -> TensorType:
    """What a step sees of an array with a leading time axis."""
    return tensor_type(x.shape[1:], x.dtype)


@operator(
    "RNN _npx_rnn",
    "data parameters state state_cell sequence_length",
    params=dict(_PARAMS),
    optional=_input_names,
    dtypes="TTT**",
    infer_inputs=_shapes,
    infer_dtypes=_dtypes,
    outputs=lambda p: 1 if not p.state_outputs else 3 if p.mode == "lstm" else 2,
    output_names=("output", "state_output", "statecell_output"),
    samples=(
        _sample("rnn_tanh", (4, 2, 3), 5, 1),
        _sample("rnn_relu", (3, 2, 4), 5, 2),
        _sample("lstm", (4, 2, 3), 5, 2, bidirectional=True),
        _sample("lstm", (3, 2, 3), 4, 1, projection_size=2),
        _sample("lstm", (3, 2, 3), 4, 1, lstm_state_clip_min=-0.1, lstm_state_clip_max=0.2),
        _sample("gru", (5, 3, 2), 4, 1),
        _sample("gru", (5, 3, 2), 4, 2, bidirectional=True, use_sequence_length=True),
        _sample("lstm", (1, 1, 1), 1, 1),
    ),
    domain=(-1.0, 1.0),
)
def rnn(b: Builder, p: Values, *inputs: Node) -> tuple[Node, ...]:
    """Recurrent layers over a sequence (T, N, C): Elman networks, LSTM (Hochreiter and Schmidhuber, 1997), or
    GRU (Cho et al., 2014; the reset gate acts after the matrix product)."""
    nodes = dict(zip(_input_names(p), inputs, strict=True))
    _check(p, nodes)
    x, lstm = nodes["data"], p.mode == "lstm"
    length, n, depth = x.shape
    directions = 2 if p.bidirectional else 1
    b.reserve(p.num_layers * directions * 16)  # at least
    weights = _unpacked(b, p, depth, nodes["parameters"])
    valid = None
    if p.use_sequence_length:
        count = b.cast(b.reshape(nodes["sequence_length"], (1, n, 1)), i64)
        valid = b.lt(b.iota((length, n, 1), 0, i64), count)
    last: list[list[Node]] = [[], []]
    for layer in range(p.num_layers):
        if layer and p.p > 0 and b.training:
            keep = b.ge(_uniform01(b, x.shape), p.p)
            x = b.select(keep, x * (1 / (1 - p.p)), b.full_like(x, 0))
        sides = []
        for d in range(directions):
            k = layer * directions + d
            states = [b.item(nodes["state"], k), *([b.item(nodes["state_cell"], k)] if lstm else [])]
            y, final = _direction(b, p, x, weights[k], states, valid, reverse=d == 1)
            sides.append(y)
            for states_of_kind, state in zip(last, final, strict=False):
                states_of_kind.append(b.reshape(state, (1, *state.shape)))
        x = b.concat(sides, 2)
    if not p.state_outputs:
        return (x,)
    return (x, b.concat(last[0], 0), *((b.concat(last[1], 0),) if lstm else ()))


def _concat_from_result(p: Values, shapes: list[Any], results: list[Any]) -> list[Any]:
    """The unknown parts share what the known ones leave: those of the two directions are equally long."""
    unknown = [k for k, s in enumerate(shapes) if s is None]
    if p.dim != 0 or not unknown or results[0] is None or any(s is not None and len(s) != 1 for s in shapes):
        return shapes
    rest = results[0][0] - sum(s[0] for s in shapes if s is not None)
    if rest < 0 or rest % len(unknown):
        raise MXNetError(f"the parameters of RNN have {results[0][0]} elements, which their parts do not make up")
    return [(rest // len(unknown),) if s is None else s for s in shapes]


@operator(
    "_rnn_param_concat _npi_rnn_param_concat",
    "*data",
    params={"num_args": Int(1, "Number of inputs to be concated.", low=1), "dim": Int(1, "axis to join along")},
    count_param="num_args",
    infer_from_results=_concat_from_result,
    samples=(sample([(3,), (4,)], {"dim": 0}), sample([(2, 3), (2, 1)])),
    output_names=("output",),
)
def rnn_param_concat(b: Builder, p: Values, *data: Node) -> Node:
    """Join the parameters of recurrent layers into one vector."""
    joined: Node = concat.lower(b, p, *data)  # type: ignore[assignment]
    return joined
